"""Words of many languages by which the offline writer tells greetings, openings of requests,
negations and sentences that lean on others.

They are not sorted by language: a short sentence does not tell its own. What is not here is judged
by its words and its place alone.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re

_GREETING = (
    r"hey|hi|hello|hiya|dear|thanks|thank you|thx|congrats|congratulations|good (?:morning|afternoon|evening|day)"
    r"|hallo|guten (?:tag|morgen|abend)|moin|danke(?: schön)?|vielen dank|bonjour|bonsoir|salut|merci(?: beaucoup)?"
    r"|hola|buen(?:os|as) (?:días|tardes|noches)|(?:muchas )?gracias|olá|oi|bom dia|boa (?:tarde|noite)|(?:muito )?obrigad[oa]"
    r"|ciao|buongiorno|buonasera|salve|grazie(?: mille)?|привет|здравствуй(?:те)?|добрый (?:день|вечер)|доброе утро|(?:большое )?спасибо(?: большое)?"
    r"|مرحبا|مرحبًا|أهلا|أهلاً|السلام عليكم|شكرا(?: جزيلا)?|شكرًا(?: لك)?|hoi|goede(?:morgen|middag|navond)|dank je(?: wel)?|bedankt"
    r"|cześć|dzień dobry|dziękuję|dzięki|merhaba|selam|teşekkür(?:ler| ederim)|नमस्ते|नमस्कार|धन्यवाद"
)
_ASSENT = (
    r"wow|oh|ah|aw+|hmm+|um+|uh|sure(?: thing)?|well|ok(?:ay)?|alright|great|cool|awesome|nice|perfect|excellent|wonderful|sounds good"
    r"|absolutely|definitely|of course|certainly|got it|understood|you['’]re welcome|haha+|lol|yes|yeah|yep"
    r"|gerne?|super|natürlich|klar|alles klar|ja|bien sûr|d['’]accord|parfait|oui|avec plaisir|claro(?: que sí)?|por supuesto|perfecto|vale|sí|de acuerdo"
    r"|perfeito|com certeza|sim|certo|va bene|конечно|отлично|хорошо|понятно|да|بالطبع|بالتأكيد|حسنا|حسنًا|ممتاز|نعم"
    r"|你好|您好|嗨|谢谢(?:你|您)?|好的?|当然(?:可以)?|没问题|太好了|明白了?|是的|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|はい|もちろん(?:です)?|わかりました"
    r"|natuurlijk|prima|oczywiście|chętnie|jasne|tabii(?: ki)?|elbette|tamam|ज़रूर|हाँ|안녕하세요|안녕|감사합니다|고마워요|물론(?:이죠|입니다)?|알겠습니다|좋아요|네"
)
# Only what a mark sets off from the rest is a pleasantry: "Well water" and "Thanks to Marta" say
# something. No negation is one.
PLEASANTRIES = re.compile(
    rf"(?:(?:(?i:{_GREETING})(?i: (?:so much|a lot|again|very much|there|everyone|all|team))?"
    r"(?: (?:Mrs?|Ms|Mx|Dr|Prof|Herr|Frau|Mme|Sra?)\.?(?= ))?(?: (?!No\b|Not\b|Never\b|Nein\b)[A-Z][\w'’]+(?<!Mr)(?<!Mrs)(?<!Dr)){0,2}"
    rf"|(?i:(?:{_ASSENT})(?: (?:{_ASSENT}))?)|@\w+)\s*(?:[,!.;:–—，。！、،]|\s-(?=\s)|(?<=\w)(?=$))+\s*|@\w+ )+"
)
"""Greetings, thanks, assent and addresses that open a sentence."""

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

OPENING = re.compile(
    r"(?:(?:and|so|then|also|now|but|i mean|ok(?:ay)?|alright|right|yes|yeah|actually|basically|just|anyway|maybe|please|pls|sorry|listen"
    r"|by the way|btw|hey|hi|hello|(?:any|some) (?:advice|tips|ideas?|suggestions)(?: on| for| about)?"
    r"|(?:(?:can|could|would|will) (?:you|we|i)|i(?:['’]d| would| really| just| also)* (?:want|need|like|love)(?: you)?)"
    r"(?: please| also| just| maybe)*(?: (?:your|some) (?:help|advice))?"
    r"(?: (?:to|with|help(?: me)?(?: out)?(?: to| with)?|tell me(?: about)?|explain(?: to me)?|show me|give me|recommend|know))*"
    r"|help me(?: out)?(?: with| to)?|tell me(?: about)?|explain(?: to me)?|show me|give me|let me know|let['’]?s"
    r"|i(?:['’]m| am|['’]ve been| have been| was)(?: currently| also| still| now| kinda| really)*"
    r" (?:ready|trying|looking|hoping|planning|thinking|working|struggling|interested|wondering|considering|worried|curious|stuck|confused|unsure)"
    r"(?: to| for| on| in| about| of| with| by| into| if| whether)?|i wonder(?: if| whether)?|(?:get|go) back to|continue with|do you (?:know|think|have)|is there (?:a|any) way to"
    r"|(?:and |so )?(?:when|if) (?:i|you|we) (?:want(?:ed)?|need(?:ed)?|were|had) to"
    r"|also|und|dann|jetzt|okay|gut|bitte|(?:kannst|könntest|würdest) du(?: mir)?(?: bitte)?(?: (?:dabei )?helfen,?)?"
    r"|(?:können|könnten|würden) sie(?: mir)?(?: bitte)?(?: helfen,?)?|hilf mir(?: bitte)?(?: bei| mit)?|ich brauche(?: bitte)?(?: deine| ihre| etwas)? hilfe(?: bei| mit)?"
    r"|ich (?:möchte|will|würde gerne?|hätte gerne?|suche)(?: gerne?)?"
    r"|alors|donc|et|s['’]il (?:te|vous) pla[iî]t|(?:peux|pourrais)[- ]tu(?: m['’]aider(?: à)?| me dire)?|(?:pouvez|pourriez)[- ]vous(?: m['’]aider(?: à)?| me dire)?"
    r"|aide[- ]moi(?: à)?|je (?:voudrais|veux|souhaite|cherche(?: à)?)|j['’]aimerais(?: bien)?|j['’]ai besoin d['’]aide pour|est-ce que"
    r"|entonces|bueno|ahora|por favor|(?:me )?(?:puedes|podrías|puede|podría)(?: por favor)?(?: ayudar(?:me)?(?: a| con)?| decirme| explicarme)?"
    r"|ayúdame(?: a| con)?|(?:yo )?(?:quiero|quisiera|necesito|me gustaría|busco)(?: ayuda (?:para|con)| saber)?"
    r"|então|bom|agora|(?:você )?(?:pode|poderia|consegue)(?: me)?(?: ajudar(?:-me)?(?: a| com)?| dizer| explicar)?|(?:eu )?(?:quero|queria|gostaria de|preciso de ajuda (?:para|com))"
    r"|allora|ora|per favore|(?:mi )?(?:puoi|potresti|può)(?: aiutarmi(?: a| con)?| dirmi)?|aiutami(?: a| con)?|(?:io )?(?:voglio|vorrei|ho bisogno di)"
    r"|(?:ты )?(?:можешь|можете|мог бы|могли бы)(?: ли)?(?: мне)?(?: помочь(?: мне)?| сказать| объяснить)?|пожалуйста|помоги(?:те)?(?: мне)?(?: с)?|подскажи(?:те)?|(?:я )?(?:хочу|хотел бы|хотела бы)|мне нужно|мне надо"
    r"|(?:kun|kan|zou|wil) (?:je|jij|u)(?: me| mij)?(?: helpen(?: met| om)?(?: het)?| vertellen| uitleggen)?|help me(?: met| om)?|ik (?:wil|zoek|zou graag|wil graag)"
    r"|(?:czy )?(?:możesz|mógłbyś|mogłabyś)(?: mi)?(?: pomóc(?: mi)?(?: w| z)?| powiedzieć)?|pomóż mi(?: w| z)?|(?:ja )?(?:chcę|chciałbym|chciałabym)"
    r"|هل (?:يمكنك|تستطيع|يمكن)(?: أن)?(?: مساعدتي(?: في)?| تساعدني(?: في)?)?|ساعدني(?: في| على)?|(?:أنا )?(?:أريد|أود|أحتاج)(?: أن| إلى| مساعدة في)?|मुझे|क्या आप"
    r")(?!\w)[\s,:¿]*|(?:请问?|你|您|能不能|能否|可以|可不可以|帮(?:我|忙)|一下|我(?:想要?|需要|打算|要)|告诉我|麻烦|知道|了解|听说过?|[听看去]过)+[，,]?|(?:では|じゃあ|すみません|私は|저는|제가|그럼)[、, ]?)+",
    re.IGNORECASE,
)
"""Words that lead to a request and name nothing."""

TAIL = re.compile(
    r"(?:[\s,]*\b(?:please|pls|thanks|thank you|for me|bitte|danke|s['’]il (?:te|vous) pla[iî]t|merci|por favor|gracias|per favore|grazie|пожалуйста|спасибо|alsjeblieft|proszę|lütfen)"
    r"|[你您有]?(?:了解|知道|去过|听过|看过|听说过)吗|在哪[里儿]?[呀呢]?|(?:吗|呢|好吗|可以吗|吧|，?谢谢你?)|を?(?:教えて|手伝って|して)(?:ください|下さい)|を?お願い(?:します|できますか)|でしょうか|(?:을|를)? ?(?:도와|알려|추천해|설명해) ?(?:주세요|줘)"
    r"|(?:konusunda |için )?(?:bana )?yardım (?:eder|edebilir) misin(?:iz)?|में मदद (?:चाहिए|करें|कीजिए)|बताइए|बताओ)[\s.!?。！？]*$",
    re.IGNORECASE,
)
"""Politeness at the end of a request."""

LEANING = re.compile(
    r"(?:and|but|or|so|because|then|it|this|that|these|those|he|she|they|them|him|her|its|his|there|also|both|same"
    r"|it['’]s|that['’]s|und|aber|oder|denn|dann|deshalb|dazu|damit|er|sie|es|dies\w*|das (?:ist|war|wird|hat|geht)|dort|da|so|et|mais|ou|donc|puis|il|elle|ils|elles"
    r"|ça|cela|c['’]est|y|pero|porque|él|ella|ellos|esto|eso|este|esta|ese|esa|lo|así|e|mas|então|ele|ela|isso|isto|esse|essa|ma|lui|lei|questo|questa|così"
    r"|и|а|но|или|тогда|потом|он|она|оно|они|это|этот|эта|тот|en|maar|of|want|dus|hij|zij|het (?:is|was|kan)|dit|dat|die|ale|lub|więc|on|ona|ono|to|ten|ta"
    r"|ve|ama|bu|şu|o|bunlar|और|लेकिन|यह|वह|وهو|وهي|هو|هي|هذا|هذه|ذلك|لكن)(?!\w)"
    r"|[它他她这那但也]|而且|所以|然后|因为|不过|それ|これ|あれ|その|しかし|でも|だから|そして|그것|이것|그 |하지만|그런데|그래서|그리고",
    re.IGNORECASE,
)
"""A pronoun or conjunction without whose sentence before this one is not understood."""

CHATTER_QUESTION = re.compile(
    r"anything else|would you like|do you want me|shall i|want me to|sound good|what do you think|how are you"
    r"|möchtest du|soll ich|noch etwas|souhaitez-vous|autre chose|quieres que|algo más|mais alguma|хотите|что-нибудь ещё"
    r"|还有什么|需要我|他に何か|いかがでしょうか|هل تريد|شيء آخر",
    re.IGNORECASE,
)
"""A question that asks for nothing in particular: an offer, or how somebody is."""
