"""Sixty messages that nothing from the past can help with, in eight languages: a context for them
should recall next to nothing.
"""

SMALL_TALK: dict[str, tuple[str, ...]] = {
    "en": (
        "Good morning! Slept well?",
        "How are you today?",
        "Write a limerick about penguins.",
        "Tell me a joke, a really bad one.",
        "Thanks so much, that was great.",
        "What's the weather going to be like tomorrow?",
        "What is 17 times 23?",
        'Translate "the train is late" into Italian.',
        "Who won the World Cup in 1966?",
        "I'm bored. Entertain me for a minute.",
        "Flip a coin for me.",
        "What's the capital of Mongolia?",
    ),
    "de": (
        "Guten Abend, wie geht es dir?",
        "Erzähl mir einen Witz über Beamte.",
        "Vielen Dank, das reicht mir schon.",
        "Wird es morgen regnen?",
        "Wie viel ist 12 Prozent von 250?",
        'Was heißt "Schmetterling" auf Französisch?',
        "Schreib ein kurzes Gedicht über den Herbst.",
        "Na, alles klar bei dir?",
    ),
    "fr": (
        "Salut, ça va ?",
        "Raconte-moi une blague sur les chats.",
        "Merci beaucoup, bonne soirée !",
        "Quel temps fera-t-il demain ?",
        "Combien font 144 divisé par 12 ?",
        "Traduis « bonne nuit » en espagnol.",
        "Écris un haïku sur la neige.",
        "Tu es un robot ou une personne ?",
    ),
    "es": (
        "Hola, ¿qué tal estás?",
        "Cuéntame un chiste corto.",
        "Muchas gracias, eres muy amable.",
        "¿Va a llover este fin de semana?",
        "¿Cuánto es 35 más 48?",
        'Traduce "te echo de menos" al inglés.',
        "Escribe un poema breve sobre el mar.",
        "Buenas noches, hasta mañana.",
    ),
    "it": (
        "Ciao, come stai?",
        "Raccontami una barzelletta.",
        "Grazie mille, a presto!",
        "Che tempo farà domani?",
        "Quanto fa 9 per 8?",
        "Come si dice «buon compleanno» in tedesco?",
    ),
    "pt": (
        "Oi, tudo bem com você?",
        "Conta uma piada de papagaio.",
        "Obrigado, tenha um bom dia!",
        "Vai chover amanhã?",
        "Quanto é 250 dividido por 5?",
        "Escreva um verso sobre a lua.",
    ),
    "ja": (
        "こんにちは、元気ですか？",
        "面白い話をしてください。",
        "ありがとう、助かりました。",
        "明日の天気はどうですか？",
        "7かける8はいくつ？",
        "「猫」を英語で何と言いますか？",
    ),
    "zh": (
        "你好，最近怎么样？",
        "给我讲个笑话吧。",
        "谢谢你，辛苦了！",
        "明天会下雨吗？",
        "十五加二十七等于多少？",
        "写一首关于春天的短诗。",
    ),
}

assert sum(map(len, SMALL_TALK.values())) == 60
