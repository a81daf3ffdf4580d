"""Phrases of several languages by which the offline writer tells requests, decisions, greetings and
sentences that lean on others.

A language that is not here has none of them: its sentences are judged by their words and their
place alone.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """Patterns for one language. `decision` and `tail` match anywhere, all others the beginning of
    a sentence.
    """

    request: re.Pattern[str]
    """The beginning of a request, which a title leaves out."""
    leaning: re.Pattern[str]
    """A pronoun or conjunction without which's sentence before this one is not understood."""
    decision: re.Pattern[str]
    """Anywhere: who says it decides something."""
    tail: re.Pattern[str]
    """Politeness at the end of a request."""


def _phrases(request: str, leaning: str, decision: str, tail: str) -> Phrases:
    return Phrases(
        re.compile(rf"(?:{request})(?!\w)[\s,:]*", re.IGNORECASE),
        re.compile(rf"(?:{leaning})(?!\w)", re.IGNORECASE),
        re.compile(rf"(?<!\w)(?:{decision})(?!\w)", re.IGNORECASE),
        re.compile(rf"[\s,]*(?:{tail})\W*$", re.IGNORECASE),
    )


def _unspaced(request: str, leaning: str, decision: str, tail: str) -> Phrases:
    return Phrases(
        re.compile(f"(?:{request})[，、]?"),
        re.compile(leaning),
        re.compile(decision),
        re.compile(f"(?:{tail})[。！？!?]*$"),
    )


ENGLISH = _phrases(
    r"and|so|then|also|now|i mean|ahh?|okay|ok|alright|all right|right|yes|yeah|actually|basically|(?:first|next)(?=,)"
    r"|just|anyway|perhaps|maybe|please|pls"
    r"|in (?:extreme |great |more |full )?details?(?: about| on)?"
    r"|(?:decide|determine|understand|know|see|check|be sure) (?:if|whether(?! to\b))"
    r"|(?:figure|find) out(?: if| whether)?"
    r"|(?:(?:offer|give|provide|suggest|share|recommend)(?: me| us)? )?(?:some|any|a few|more|your)"
    r" (?:(?:general|practical|good|helpful) )?(?:advice|guidance|tips|insights?|suggestions?|pointers)"
    r"(?: on| for| about| with| regarding)"
    r"|what(?:['’]?s| is) the (?:go|deal|story|status|situation) (?:with|on)"
    r"|kindly|sorry|excuse me|listen(?= ?,)|look(?= ?,)|by the way|btw|to be honest|honestly"
    r"|(?:can|could|would|will|do) (?:you|u|we|i)(?: please| pls| kindly| maybe| also| just)?"
    r"(?: be able to| mind| tell me(?: about)?| help me(?: out)?(?: with| to)?| explain(?: to me)?| show me"
    r"| give me| suggest| recommend| know"
    r"| happen to know(?: if| whether)?| have any (?:idea|tips?|advice|suggestions?)(?: on| for| about)?)?"
    r"|(?:please |can you |could you )?(?:help me(?: out)?(?: with| to)?|tell me(?: about)?|explain(?: to me)?"
    r"|show me|let me know)"
    r"|i(?: really| just| also| now| currently| recently|'m| am|’m)?"
    r"(?:'d| would|’d)?(?: really| just| also)? (?:want|need|like|love|wanna"
    r"|prefer)"
    r"(?: you| your help| some help| help)?(?: to| with)(?:(?: know| see)(?: if| whether(?! to\b))?)?"
    r"|(?:give|write|show) me|we need(?: to)?|we(?:['’]d| would)? (?:want|like|love) to"
    r"|what i (?:need|want)(?: to know)? is|i(?:'m|’m| am) (?:dying|curious) to know|i(?:['’]ve got| have(?: got)?) this"
    r"|i require(?: your)?(?: assistance| help)?(?: to| with)?|let me|i need(?: some| your)? (?:help|advice"
    r"|tips)(?: with| on| about| in| to)?"
    r"|i(?:'m|’m| am| was)(?: currently| also| still| now)? (?:trying|looking(?! forward)|hoping|planning|ready|about|going"
    r"|having trouble|struggling|working"
    r"|interested|thinking|considering)(?: to| for| on| in| about| of| with)?(?: start(?: with)?)?"
    r"|i(?:'m|’m| am|'ve been|’ve been| have been| was)? (?:just )?wonder(?:ing|ed)?(?: if| whether"
    r"| about)?(?: you (?:can|could))?"
    r"|i(?: would|'d|’d)? like|i have (?:a|another|one more) question(?: about| on| regarding)?|i(?:'ve|’ve"
    r"| have) got|my question is"
    r"|do you think|any (?:idea|ideas|tips|advice|suggestions)(?: on| for| about)?|is there (?:a|any) way to"
    r"|(?:is|would|will) it (?:be )?(?:possible|necessary|worth|ok|okay|better|useful) to"
    r"|let(?:'s|’s| us)(?: just| now| also)?|how about|what about|what(?:'s|’s| is| are)(?: the)?|who(?:'s|’s"
    r"| is)(?: the)?",
    r"and|but|or|so|because|also|then|which|such|both|neither|it|its|it['’]\w+|this|that|that['’]\w+|these|those"
    r"|they|they['’]\w+|their|them"
    r"|he|he['’]\w+|his|him|she|she['’]\w+|her|there(?! (?:is|are|was|were))|here(?:'s|’s| is| are)|same|another"
    r"|the (?:latter|former|same|other)"
    r"|however|therefore|thus|otherwise|instead|additionally|furthermore|moreover|for example|if so|if not"
    r"|in that case|either way|once done",
    r"let['’]s(?! (?:just |all )?(?:say|see|be|face|break|dive|talk|discuss|hear|continue|wrap up"
    r"|keep (?:\w+ing|at it|it up)|work (?:hard|together|on)|move (?:quickly|on|forward)"
    r"|get (?:started|going|into|back)))"
    r"|let us|we(?:['’]ll| will)|(?:have |['’]ve )?(?:decided|agreed|chosen|settled)(?: to| on| that|:)"
    r"|i(?:['’]ll| will) (?:take|go|use|book|choose|pick|order|buy|start|keep|stick|add|do|ask|try)"
    r"|go(?:ing)? with|stick(?:ing)? (?:to|with)"
    r"|from now on|we agreed|it['’]s decided|i (?:chose|choose|pick|picked)"
    r"|(?:^|so |then )(?!(?:what|how|where|who|as|that|this|there|here|whatever|however|maybe)\b)[\w-]+ it is(?: then)?(?=\W*$)",
    r"please|pls|thanks|thank you|thx|thanks in advance|for me|right now|today, please|or something|or not"
    r"|if possible",
)
"""Defaults of all languages: a language that leaves a pattern out uses the English one."""

_BY_LANGUAGE = {
    "en": ENGLISH,
    "de": _phrases(
        r"und|also|dann|jetzt|okay|gut|bitte|ja|eigentlich|übrigens|na gut|super"
        r"|(?:kannst|könntest|würdest|magst) du(?: mir)?(?: bitte)?(?: mal)?(?: (?:dabei )?helfen)?(?:,)?"
        r"|(?:können|könnten|würden) sie(?: mir)?(?: bitte)?(?: (?:dabei )?helfen)?(?:,)?"
        r"|hilf mir(?: bitte)?(?: bei| mit| dabei)?"
        r"|ich brauche(?: bitte)?(?: deine| ihre| etwas)? hilfe(?: bei| mit)?|ich (?:möchte|will|würde gerne?|hätte gerne?|suche"
        r"|muss|brauche)(?: gerne?)?|sag mir(?: bitte)?|erinnere mich(?: bitte)?(?: daran)?|lass uns"
        r"|ich (?:hätte|habe) eine frage(?: zu[rm]?)?|weißt du|gibt es",
        r"und|aber|oder|denn|dann|also|deshalb|deswegen|daher|darum|dazu|damit|dabei|dafür|davon|danach|er|sie"
        r"|es|dies|diese[rsnm]?|jene[rsnm]?"
        r"|ihm|ihn|ihnen|das (?:ist|war|wird|hat|geht|kann|klingt|wäre|heißt|sind)|dort|da|so|auch|außerdem|sonst",
        r"entschieden|beschlossen|abgemacht|vereinbart|einigen uns|wir nehmen|ich nehme|nehmen wir|machen wir"
        r"|lass(?:t)? uns(?!.* weiter)|dann nehme"
        r"|wir machen|ich werde|ab jetzt|ab sofort|bleiben wir|wir bleiben",
        r"bitte|danke|vielen dank|danke im voraus",
    ),
    "fr": _phrases(
        r"et|alors|bon|donc|ensuite|ok|d['’]accord|s['’]il (?:te|vous) pla[iî]t|oui"
        r"|(?:peux|pourrais)[- ]tu(?: s['’]il te plaît)?(?: m['’]aider(?: à)?| me dire| m['’]expliquer)?"
        r"|(?:pouvez|pourriez)[- ]vous(?: m['’]aider(?: à)?| me dire| m['’]expliquer)?|est-ce que (?:tu peux"
        r"|vous pouvez)(?: m['’]aider à)?"
        r"|aide[- ]moi(?: à)?|dis[- ]moi|je (?:voudrais|veux|souhaite|dois)|j['’]aimerais(?: bien)?|je cherche"
        r"|j['’]ai besoin d['’](?:aide pour)?"
        r"|rappelle[- ]moi(?: de)?|j['’]ai une question(?: sur)?|est-ce que",
        r"et|mais|ou|donc|alors|puis|ensuite|car|il|elle|ils|elles|ça|cela|ceci|c['’]est|c['’]était|ce (?:sont"
        r"|sera|n['’])|celui-ci|celle-ci|y"
        r"|cependant|aussi|sinon|lui|leur",
        r"décidé|convenu|on prend|je prends|prenons|on fait|faisons|allons-y|je choisis|on part sur"
        r"|d['’]accord pour|désormais|je vais",
        r"s['’]il (?:te|vous) pla[iî]t|merci|merci d['’]avance",
    ),
    "es": _phrases(
        r"y|entonces|bueno|vale|ok|ahora|también|por favor|sí|hola"
        r"|¿?(?:me )?(?:puedes|podrías|puede|podría)(?: por favor)?(?: ayudarme(?: a| con)?| decirme| explicarme"
        r"| ayudar(?:me)?(?: a)?)?"
        r"|ayúdame(?: a| con)?|busco|estoy buscando|dime|(?:yo )?(?:quiero|quisiera|necesito|me gustaría|tengo que)(?: ayuda para"
        r"| saber)?|tengo una (?:pregunta|duda)"
        r"(?: sobre)?|recuérdame|vamos a|¿",
        r"y|e|pero|o|entonces|luego|porque|por eso|él|ella|ellos|ellas|esto|eso|este|esta|ese|esa|estos|estas|lo"
        r"|la (?:tengo|quiero)|así|también"
        r"|además|sin embargo|le|les",
        r"decid(?:o|í|imos|ido)|acordamos|acordado|quedamos|me quedo con|nos quedamos|elijo|elegimos|vamos a"
        r"|vamos con|reservemos|de ahora en adelante|haré",
        r"por favor|gracias|gracias de antemano",
    ),
    "pt": _phrases(
        r"e|então|bom|ok|agora|também|por favor|sim|olá"
        r"|(?:você |vocês )?(?:pode|poderia|consegue)(?: por favor)?(?: me)?(?: ajudar(?:-me)?(?: a| com)?"
        r"| dizer| explicar)?"
        r"|(?:eu )?preciso de ajuda (?:para|pra|com)|procuro|estou procurando|me ajud[ae](?: a| com)?"
        r"|(?:eu )?(?:quero|queria|preciso(?: de)?|gostaria de)"
        r"(?: ajuda para| saber)?"
        r"|tenho uma (?:pergunta|dúvida)"
        r"(?: sobre)?|vamos|me lembre(?: de)?",
        r"e|mas|ou|então|depois|porque|por isso|ele|ela|eles|elas|isso|isto|este|esta|esse|essa|assim|também"
        r"|além disso|lhe",
        r"decidi(?:mos|do)?|combinado|combinamos|fico com|ficamos com|escolho|escolhi|vamos|de agora em diante"
        r"|vou (?:ficar|comprar|reservar|usar)",
        r"por favor|obrigad[oa]",
    ),
    "it": _phrases(
        r"e|allora|ok|bene|ora|anche|per favore|sì|(?:mi )?(?:puoi|potresti|può"
        r"|potrebbe)(?: per favore)?(?: aiutarmi(?: a| con)?| dirmi)?|aiutami(?: a| con)?"
        r"|cerco|sto cercando|(?:io )?(?:voglio|vorrei|devo|ho bisogno di)|ho una domanda(?: su)?|ricordami(?: di)?",
        r"e|ma|o|allora|poi|perché|quindi|lui|lei|loro|esso|essa|questo|questa|quello|quella|così|anche|inoltre"
        r"|gli|le",
        r"deciso|decidiamo|d['’]accordo|prendiamo|prendo|scelgo|scegliamo|andiamo con|facciamo|d['’]ora in poi",
        r"per favore|grazie",
    ),
    "ru": _phrases(
        r"и|а|ну|так|хорошо|ладно|теперь|тогда|да|пожалуйста"
        r"|(?:ты )?(?:можешь|можете|мог бы|могли бы)(?: ли)?(?: ты"
        r"| вы)?(?: мне)?(?:,? пожалуйста,?)?(?: помочь(?: мне)?| сказать| объяснить)?"
        r"|помоги(?:те)?(?: мне)?(?:,? пожалуйста)?(?: с)?|подскажи(?:те)?(?:,? пожалуйста)?|скажи(?:те)?"
        r"|(?:я )?(?:хочу|хотел бы|хотела бы)"
        r"|мне нужно|мне надо|напомни(?:те)?(?: мне)?|у меня (?:есть )?вопрос(?: о| про)?|давай(?:те)?",
        r"и|а|но|или|тогда|потом|поэтому|он|она|оно|они|это|этот|эта|эти|тот|та|те|его|её|их|ему|ей|им|так|также"
        r"|там|туда|иначе",
        r"реши(?:л|ла|ли)|договорились|выбираю|выбрал|выбрала|берём|беру|давай(?:те)?(?! (?:вернёмся|продолжим))"
        r"|остановимся на|буду|будем"
        r"|отныне",
        r"пожалуйста|спасибо|заранее спасибо",
    ),
    "nl": _phrases(
        r"en|dus|dan|nu|oké|goed|ja|alsjeblieft|(?:kun|kan|zou|wil) (?:je|jij|u)(?: me| mij)?(?: alsjeblieft"
        r"| alstublieft)?(?: helpen(?: met| om)?(?: het)?| vertellen| uitleggen)?|help me(?: met| om)?"
        r"|ik (?:wil|zoek|zou graag|moet|wil graag|heb hulp nodig (?:bij|met))|ik heb een vraag(?: over)?|vertel me"
        r"|herinner me(?: eraan)?|laten we",
        r"en|maar|of|want|dan|dus|daarom|daarmee|daarvoor|hij|zij|ze|het (?:is|was|wordt|kan|heeft)|dit|dat|deze|die"
        r"|er|ook|anders|zo",
        r"besloten|afgesproken|we nemen|ik neem|ik kies|we kiezen|dan (?:neem|kies) ik|laten we(?! verder)|we doen|vanaf nu|ik ga",
        r"alsjeblieft|alstublieft|bedankt|dank je(?: wel)?",
    ),
    "pl": _phrases(
        r"i|a|no|więc|dobrze|teraz|tak|proszę|(?:czy )?(?:możesz|mógłbyś|mogłabyś|może pan|może pani)(?: mi)?(?: proszę)?"
        r"(?: pomóc(?: mi)?(?: w| z)?| powiedzieć| wyjaśnić)?|pomóż mi(?: proszę)?(?: w| z)?"
        r"|(?:ja )?(?:chcę|chciałbym|chciałabym|muszę|potrzebuję)(?: pomocy (?:w|z|przy))?|powiedz mi|przypomnij mi"
        r"|mam pytanie(?: o)?",
        r"i|a|ale|lub|albo|więc|dlatego|potem|on|ona|ono|oni|one|to|ten|ta|te|tamten|jego|jej|ich|mu|tam|tak|też|także",
        r"zdecydował(?:em|am)|zdecydowaliśmy|ustaliliśmy|wybieram|wybieramy|bierzemy|biorę|zróbmy|od teraz|zrobię",
        r"proszę|dziękuję|dzięki|z góry dziękuję",
    ),
    "tr": _phrases(
        r"ve|peki|tamam|şimdi|evet|lütfen|bana|(?:ben )?sana bir sorum var",
        r"ve|ama|fakat|veya|çünkü|sonra|bu|şu|o|bunlar|onlar|bunun|onun|böyle|öyle|ayrıca|yoksa",
        r"karar verdi[mk]|anlaştık|seçtim|seçiyorum|alıyorum|alalım|yapalım|bundan sonra",
        r"(?:konusunda |için )?(?:bana )?yardım (?:eder misin(?:iz)?|edebilir misin(?:iz)?|et(?:in)?)|lütfen|teşekkürler"
        r"|(?:yapmak|almak|öğrenmek) istiyorum",
    ),
    "hi": _phrases(
        r"और|तो|अब|हाँ|ठीक है|कृपया|(?:क्या )?(?:आप|तुम)|मुझे(?: कृपया)?",
        r"और|लेकिन|मगर|या|तो|फिर|इसलिए|यह|ये|वह|वे|इसे|उसे|इसका|उसका|भी|क्योंकि",
        r"तय (?:किया|है|कर लिया)|फैसला किया|चुनता हूँ|चुनती हूँ|लेंगे|लूँगा|लूँगी|करेंगे|अब से",
        r"(?:बनाने |करने |ढूँढने )?में मदद (?:चाहिए|करें|कीजिए|करो)|बताइए|बताओ|बताएँ|समझाइए|चाहिए|कृपया|धन्यवाद",
    ),
    "ko": _unspaced(
        r"(?:그럼|그러면|그리고|이제|네|혹시)[,]? |제가 |저는 ",
        r"그것|이것|저것|그|이 |하지만|그런데|그래서|그리고|또|그러나|그래도|거기|여기|그러면|그럼",
        r"하기로 했|로 할게요|로 정했|결정했|선택했|으로 하겠|로 하겠|앞으로는",
        r"(?:을|를)? ?(?:도와|알려|가르쳐|추천해|설명해)"
        r"(?:주세요| 주세요|주실 수 있나요| 주실 수 있나요|줘|달라)|부탁(?:해요|드려요|드립니다|합니다)"
        r"|(?:하고 )?싶어요|해 주세요",
    ),
    "zh": _unspaced(
        r"(?:那么?|好的?|另外|然后|现在|首先)[，,]|请问?(?:你|您)?(?:能|可以)?(?:帮(?:我|忙))?(?:一下)?|(?:你|您)?(?:能不能|能否|能|可以"
        r"|可不可以)(?:帮(?:我|忙)?)(?:一下)?"
        r"|帮我(?:一下)?|我(?:想要?|需要|打算|要)(?:请教|知道|问一下|问)?|告诉我|麻烦(?:你|您)?(?:帮我)?|提醒我",
        r"它|他|她|这|那(?!么?[一-鿿]{2,}的)|但|而且|所以|然后|因为|不过|并且|另外|还有|也",
        r"决定|就定|定了|说好|选择?(?:了|第)|那就|就这么|就用|就选|改成|以后都",
        r"吗|呢|好吗|可以吗|行吗|吧|谢谢(?:你|您)?|，?谢谢",
    ),
    "ja": _unspaced(
        r"(?:では|じゃあ|それでは|次に|まず|あと|すみません|ちょっと)[、,]?|(?:私|僕|俺)(?:は|が)",
        r"それ|これ|あれ|その|この(?:よう|場合)|あの|彼|しかし|でも|だから|そして|また|なので|さらに|ただ|そこ|ここ",
        r"にします|にしました|ことにし|決め(?:た|ました)|決まり|にしよう|でお願いします|で行き|選びました",
        r"(?:の?(?:方法|仕方|やり方)?を)?(?:教えて|手伝って)(?:ください|下さい|くれますか|もらえますか|いただけますか|ほしいです|欲しいです)"
        r"|を[^を、。]{1,5}[てで](?:ください|下さい|くれますか|もらえますか|いただけますか|ほしいです|欲しいです)"
        r"|を[^を、。]{1,4}(?:たいです|たいと思います)"
        r"|を?お願い(?:します|できますか)|し?てください|して下さい|ください|(?:でしょう|です|ます)か|(?:ように)?し?たいです|たいと思います",
    ),
    "ar": _phrases(
        r"و|ثم|حسنا|حسنًا|الآن|أيضا|من فضلك|نعم|هل (?:يمكنك|تستطيع|بإمكانك|يمكن)(?: أن)?(?: مساعدتي(?: في)?"
        r"| تساعدني(?: في)?| إخباري)?"
        r"|ساعدني(?: في| على)?|(?:أنا )?(?:أريد|أود|أحتاج)(?: أن| إلى| مساعدة في)?|أخبرني(?: عن)?|ذكرني(?: ب)?"
        r"|لدي سؤال(?: عن| حول)?",
        r"و(?:هو|هي|هم|هذا|هذه|ذلك)|هو|هي|هم|هذا|هذه|ذلك|تلك|لكن|ولكن|ثم|لذلك|أيضا|كما|لأن",
        r"قررت|قررنا|اتفقنا|سنأخذ|سآخذ|سأختار|اخترت|اخترنا|سنذهب|من الآن فصاعدا|سأحجز|سنحجز",
        r"من فضلك|لو سمحت|شكرا|شكرًا",
    ),
}
# May be followed by whom it greets.
_GREETING = (
    r"hey|hi|hello|hiya|dear|thanks|thank you|thx|congrats|congratulations|sorry|good (?:morning|afternoon"
    r"|evening|night|day)|welcome back"
    r"|hallo|guten (?:tag|morgen|abend)|moin|servus|danke(?: schön)?|vielen dank|bonjour|bonsoir|salut|coucou"
    r"|merci(?: beaucoup)?"
    r"|hola|buen(?:os|as) (?:días|tardes|noches)|(?:muchas )?gracias|olá|oi|bom dia|boa (?:tarde|noite)"
    r"|(?:muito )?obrigad[oa]"
    r"|ciao|buongiorno|buonasera|salve|grazie(?: mille)?|привет|здравствуй(?:те)?|добрый (?:день|вечер)|доброе утро"
    r"|(?:большое )?спасибо(?: большое)?|مرحبا|مرحبًا|أهلا|أهلاً|السلام عليكم|وعليكم السلام|شكرا(?: جزيلا)?"
    r"|شكرًا(?: لك)?"
    r"|hoi|hallo daar|goede(?:morgen|middag|navond)|dank je(?: wel)?|bedankt|cześć|dzień dobry|dziękuję|dzięki|merhaba|selam"
    r"|teşekkür(?:ler| ederim)|नमस्ते|नमस्कार|धन्यवाद"
)
_HONORIFIC = "Mrs?|Ms|Mx|Dr|Prof|Herr|Frau|Mme|Sra?"
_ASSENT = (
    r"(?:ok|okay|oh|alright)(?: cool| ok| great| good| nice| wow| so| sure)|wow|whoa|oh|ah|aw+|ooh|ugh|hmm+|um+"
    r"|uh|yay|sure|sure thing|well|ok|okay|alright|great|cool|awesome|nice|perfect|excellent|wonderful"
    r"|amazing|sounds good|absolutely|definitely|of course|certainly|got it|understood|affirmative"
    r"|you['’]re welcome|haha+|lol|listen"
    r"|gerne?|super|natürlich|klar|na klar|alles klar|ach so|ach|bien sûr|d['’]accord|parfait|très bien"
    r"|avec plaisir|claro|claro que sí"
    r"|por supuesto|perfecto|vale|de acuerdo|perfeito|com certeza|certo|va bene|конечно|отлично|хорошо|понятно"
    r"|بالطبع|بالتأكيد|حسنا|حسنًا|ممتاز"
    r"|你好|您好|嗨|谢谢(?:你|您)?|好的?|当然(?:可以)?|没问题|太好了|明白了?|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|はい"
    r"|もちろん(?:です)?|わかりました|了解(?:です|しました)?"
    r"|natuurlijk|prima|oczywiście|chętnie|jasne|tabii(?: ki)?|elbette|tamam|ज़रूर|안녕하세요|안녕|감사합니다"
    r"|고마워요|물론(?:이죠|입니다)?|알겠습니다|좋아요"
)
# Only what a mark sets off from the rest is a pleasantry: "Well water" and "Thanks to Marta" say
# something. No negation is one.
PLEASANTRIES = re.compile(
    rf"(?:(?:(?i:{_GREETING})(?i: (?:so much|a lot|again|very much|there|everyone|all|team))?(?: (?:{_HONORIFIC})\.?(?= ))?"
    rf"(?: (?!No\b|Not\b|Never\b|Nein\b|(?:{_HONORIFIC})\b)[A-Z][\w'’]+){{0,2}}"
    rf"|(?i:{_ASSENT}))\s*(?:[,!.;:–—，。！、،]|\s-(?=\s))+\s*)+"
)
"""Greetings, thanks and assent that open a sentence."""

NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|nowhere|neither|nor|cannot|without|nope|nah|\w+n['’]t"
    r"|n['’]t|(?:do|does|did|is|are|was|were|has|have|had|would|could|should|must|need|ca|wo|ai)nt"
    r"|nicht|nichts|kein\w*|nie|niemals|nein|niemand|ohne|weder|non|ne|n['’](?=\w)|pas|jamais|rien"
    r"|aucune?|sans|plus de|personne"
    r"|nunca|nada|nadie|jamás|ningun[oa]?|ningún|sin|tampoco|não|nem|sem|nenhuma?|ninguém|mai più|niente"
    r"|nessun[oa]?|senza"
    r"|не|нет|ни|никогда|ничего|никто|нельзя|без|لا|لم|لن|ليس|ليست|بدون|غير|ما)\b"
    r"|\b(?:niet|niets|geen|nooit|nigdy|nic|nikt|bez|żad\w+|değil\w*|yok\w*|hiç|asla|olmadan)\b"
    r"|नहीं|बिना|(?<!\w)मत(?!\w)|(?<!\w)[안못] |않|없|말고|아니"
    r"|[不没沒無无别莫勿]|ない|ません|なかった|ぬ\b|ず(?:に|、)",
    re.IGNORECASE,
)
"""A word that turns the meaning of a sentence around."""
CORRECTION = re.compile(
    r"(?:(?:no|oh|sorry|oops)\b,? )*(?:wait(?=,? (?:no|i|not|actually)\b)|i meant)\b|(?:no|oh|sorry),? wait\b"
    r"|(?:(?:ne|nee|nein|halt|sorry)\b,? )*(?:warte|moment mal|ich meinte)\b"
    r"|(?:(?:non|pardon)\b,? )*(?:attends?|je voulais dire)\b|(?:(?:no|perdón)\b,? )*(?:espera,|quería decir|quise decir)"
    r"|n(?:o|ão),? espera\b|(?:não\b,? )*(?:quis|quero) dizer\b|(?:no\b,? )*(?:aspetta|intendevo|volevo dire)\b"
    r"|(?:nee\b,? )*(?:wacht|ik bedoelde)\b|(?:(?:а|ой)\b,? )*нет\b|(?:нет\b,? )*(?:погоди|стой|я имела? в виду)\b"
    r"|(?:nie\b,? )*(?:czekaj|chodziło mi)\b|(?:yok|hayır)\b",
    re.IGNORECASE,
)
"""The beginning of a correction: it is understood only with what it corrects."""
CHATTER_QUESTION = re.compile(
    r"anything else|would you like|do you want me|shall (?:i|we)|want me to|sound good|does that"
    r"|what do you think|how are you|any (?:other|more) questions"
    r"|möchtest du|soll ich|noch etwas|souhaitez-vous|veux-tu que|autre chose|quieres que|algo más|mais alguma"
    r"|quer que|хотите|что-нибудь ещё"
    r"|还有什么|需要我|他に何か|いかがでしょうか|هل تريد|شيء آخر",
    re.IGNORECASE,
)
"""A question that asks for nothing in particular: an offer, or how somebody is."""


def phrases_of(language: str) -> Phrases:
    """Return the phrases of a language, those of English for one that has none."""
    return _BY_LANGUAGE.get(language, ENGLISH)
