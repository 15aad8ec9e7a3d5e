package request

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// texts write about size bytes of one kind each, as people, programs and agents
// send them.
var texts = []struct {
	name  string
	write func(rng *rand.Rand, size int) string
}{
	{"English", sentences(english, " ", ". ")},
	{"German", sentences(german, " ", ". ")},
	{"Russian", sentences(russian, " ", ". ")},
	{"Hindi", sentences(hindi, " ", "। ")},
	{"Chinese", sentences(chinese, "", "。")},
	{"Japanese", sentences(japanese, "", "。")},
	{"Korean", sentences(korean, " ", ". ")},
	{"code", goCode},
	{"JSON", jsonRows},
	{"base64", base64Lines},
	{"digits", digits},
}

var (
	english  = strings.Fields("the a of and to in is that it was for on are with as they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know get through back much before go good new write our used me man too any day same right look think also around another came come work three word must because does part even place well such here take why help put years different away again off went old number great tell men say small every found still between name should home big give air line set own under read last never us left end along while might next sound below saw something thought both few those always looked show large often together asked house world going want school important until form food keep children feet land side without boy once animals life enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts country father let night following picture being study second eyes soon times story boys since white days ever paper hard near sentence better best across during today others however sure means knew try told young miles sun ways thing whole hear example heard several change answer room sea against top turned learn point city play toward five using himself usually money didn't it's don't government development available information university management, performance; temperature approximately")
	german   = strings.Fields("der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein wurde wenn können Jahr Zeit Deutschland Regierung Entwicklung Universität Verwaltung Schwierigkeiten Gesellschaft Straße möglich größer natürlich Wissenschaft Geschichte Arbeitsplätze Bundesrepublik Zusammenarbeit Verantwortung außerdem während zwischen Menschen Stadt Wasser Haus Leben Frage Antwort")
	russian  = strings.Fields("и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой весь год от так о для ты же все тот мочь вы человек такой его сказать только или ещё бы себя один как уже до время если сам когда другой вот говорить наш мой знать стать при чтобы дело жизнь кто первый очень два день её новый рука даже во со раз где там под можно ну какой после их работа без самый потом надо хотеть ли слово идти большой должен место иметь ничто правительство государство общество исследование развитие")
	hindi    = strings.Fields("के है में की से को और का पर यह हैं एक ने भी नहीं कि तो कर था हो ही इस लिए वह जो अपने गया किया साथ रहा कहा दिया बाद हुए तक सरकार समय लोग भारत देश काम दिन साल जीवन पानी घर विकास शिक्षा विश्वविद्यालय जानकारी महत्वपूर्ण")
	chinese  = strings.Fields("的 一 是 在 不 了 有 和 人 这 中 大 为 上 个 国 我 以 要 他 时 来 用 们 生 到 作 地 于 出 就 分 对 成 会 可 主 发 年 动 同 工 也 能 下 过 子 说 产 种 面 而 方 后 多 定 行 学 法 所 民 得 经 十 三 之 进 着 等 部 度 家 电 力 里 如 水 化 高 自 二 理 起 小 物 现 实 加 量 都 两 体 制 机 当 使 点 从 业 本 去 把 性 好 应 开 它 合 还 因 由 其 些 然 前 外 天 政 四 日 那 社 义 事 平 形 相 全 表 间 样 与 关 各 重 新 线 内 数 正 心 反 你 明 看 原 又 么 利 比 或 但 质 气 第 向 道 命 此 变 条 只 没 结 解 问 意 建 月 公 无 系 军 很 情 者 最 立 代 想 已 通 并 提 直 题 党 程 展 五 果 料 象 员 革 位 入 常 文 总 次 品 式 活 设 及 管 特 件 长 求 老 头 基 资 边 流 路 级 少 图 山 统 接 知 较 将 组 见 计 别 她 手 角 期 根 论 运 农 指 几 九 区 强 放 决 西 被 干 做 必 战 先 回 则 任 取 中国 我们 可以 因为 所以 问题 政府 经济 发展 社会 工作 学习 时间 世界 大学 研究 计算机 服务器 人工智能 没有 什么 他们 如果 自己 这个 已经 需要 技术 公司 系统 信息 数据")
	japanese = strings.Fields("の に は を た が で て と し れ さ ある いる も する から な こと として い や れる など なっ ない この ため その あっ よう また もの という あり まで られ なる へ か だ これ によって により おり より による ず なり られる において ば なかっ なく しかし について せ だっ その後 できる それ 日本 東京 時間 世界 大学 研究 会社 問題 人間 技術 システム データ サーバー コンピュータ 情報 開発 経済 社会 学校 今日 明日 生活")
	korean   = strings.Fields("이 그 저 것 수 등 들 및 에서 그리고 하는 있는 있다 하고 한다 대한 위해 때문에 우리 사람 시간 한국 정부 경제 사회 문제 대학 연구 기술 회사 시스템 데이터 서버 정보 개발 세계 생활 학교 오늘 내일 생각 말했다 했다 되었다 것으로 통해 가장 많은 다른 새로운")
	idents   = strings.Fields("ctx err req resp pool queue lease endpoint handler server client buffer index count total limit timeout deadline config settings metrics logger token prompt answer stream event reader writer mutex value key name result")
)

func sentences(words []string, space, stop string) func(*rand.Rand, int) string {
	return func(rng *rand.Rand, size int) string {
		var b strings.Builder
		for b.Len() < size {
			for i := range 6 + rng.IntN(12) {
				if i > 0 {
					b.WriteString(space)
				}
				b.WriteString(words[rng.IntN(len(words))])
			}
			b.WriteString(stop)
			if rng.IntN(6) == 0 {
				b.WriteString("\n\n")
			}
		}
		return b.String()
	}
}

func goCode(rng *rand.Rand, size int) string {
	id := func() string { return idents[rng.IntN(len(idents))] }
	var b strings.Builder
	for b.Len() < size {
		a, x, y := id(), id(), id()
		fmt.Fprintf(&b, "// %s returns the %s of the %s.\nfunc (p *%s) %s(%s int) (%s, error) {\n", a, x, y, strings.ToUpper(a[:1])+a[1:], a, x, y)
		for range 1 + rng.IntN(5) {
			switch rng.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "\tif %s != nil {\n\t\treturn nil, fmt.Errorf(\"reading %s: %%w\", %s)\n\t}\n", x, y, x)
			case 1:
				fmt.Fprintf(&b, "\tfor i := range %d {\n\t\t%s[i] += %s.%s(%s)\n\t}\n", rng.IntN(100), a, x, y, a)
			case 2:
				fmt.Fprintf(&b, "\t%s := p.%s.%s[%s&0x%x]\n", x, y, a, y, rng.IntN(4096))
			case 3:
				fmt.Fprintf(&b, "\tp.%s.Lock()\n\tdefer p.%s.Unlock()\n", x, x)
			}
		}
		b.WriteString("\treturn p." + y + ", nil\n}\n\n")
	}
	return b.String()
}

func jsonRows(rng *rand.Rand, size int) string {
	var b strings.Builder
	b.WriteString("[\n")
	for b.Len() < size {
		fmt.Fprintf(&b, "  {\"id\": %d, \"name\": \"%s %s\", \"active\": %t, \"score\": %.3f, \"tags\": [\"%s\", \"%s\"], \"created_at\": \"2025-%02d-%02dT%02d:%02d:00Z\"},\n",
			rng.IntN(1e6), idents[rng.IntN(len(idents))], english[rng.IntN(len(english))], rng.IntN(2) == 0, rng.Float64()*100,
			idents[rng.IntN(len(idents))], english[rng.IntN(len(english))], 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60))
	}
	return b.String() + "  null\n]"
}

func base64Lines(rng *rand.Rand, size int) string {
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func digits(rng *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%d, ", rng.Int64N(1e10))
	}
	return b.String()
}
