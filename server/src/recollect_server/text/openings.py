"""Openings of sentences that ask without a mark at their end: "where did you two meet".

Each language has its order: an interrogative with the verb behind it, or the verb before its
subject. What only looks so is none: "where I live", "what a day", "wie schön du bist", "quand
j'étais petit", "qué bonito". Where the order is free, the second person says that somebody is
asked. A sentence with a comma is none either, but behind a short call: "had you come, ..." is a
condition.
"""

import re

_CALL = (
    r"(?:(?:\w+, |(?:hey|hi|so|and|but|ok|okay|oh|well|btw|also|then|now|und|aber|na|hallo|et|mais|alors|pero|oye|hola"
    r"|allora|ciao|mas|olá|maar|hoi|ale|hej|och|men|og|а|и|но|привет) )){,2}"
)
"""A name, a greeting or "and" before the opening."""
_SUBJECT = "(?:i|you|he|she|it|we|they|the|your|my|this|that|there)"
_AUXILIARY = "(?:is|are|was|were|am|do|does|did|can|could|will|would|should|has|have|had|may|might)(?:n['’]?t)?"
_FREE = (  # "what matters is that ..."
    r"(?!what(?:['’]s| \w+)(?: .*\w (?:is|was) (?:that|to|when|the|beyond)| (?:is|was) (?:that|to|when))\b)"
)
_ENGLISH = (
    rf"{_FREE}(?:who|what|where|when|why|how)(?: else)? {_AUXILIARY}\b",
    rf"{_FREE}(?:who|what|where|when|how)(?:['’]?s|['’](?:re|d|ll))\b(?! (?:more|worse|done)\b)",
    r"how (?:about|come)\b|what about\b|why not\b",
    rf"{_FREE}(?:what|which|whose|how (?:many|much|long|often|old|far|big|tall|late|soon|well|high|fast"
    rf"|large)) (?!(?:i|you|he|she|it|we|they|a"
    rf"|an)\b)(?:[\w'’-]+ ){{,3}}?{_AUXILIARY} {_SUBJECT}\b",
    r"(?:do|did|have|can|could|will|would|are|were)(?:n['’]?t)? (?:you|we|they|anyone|anybody)\b",
    r"(?:can|could|will|would|should|may|shall|do|have|am) i\b|(?:has|is|was|does|did|will|would|should) (?:he|she)\b",
    r"(?:is|was)(?:n['’]?t)? (?:it|your|anyone|anybody|everyone|everything)\b|(?:is|are)(?:n['’]?t)? there\b",
    r"does(?:n['’]?t)? (?:it|this|that|the|your|anyone|anybody)\b",
)
_GERMAN = (
    r"(?!wer will\b)(?:wo|wann|wer|wen|wem|was|warum|wieso|weshalb|wie|woher|wohin|womit|worüber)(?: lange| oft"
    r"| viele?| weit| spät"
    r"| alt| (?!(?:ich|du|er|sie|es|wir|ihr|man|immer|auch)\b)\w+)??"
    r" (?:ist|sind|bist|seid|war|waren|hat|habt|hast|haben|kann|kannst|könnt|soll|sollen|sollte|will|willst|muss|müssen|macht"
    r"|machst|geht|gehst|gibt|heißt|wird|wirst|kommt|kostet|dauert|weiß|findet|liegt|steht|möchtest|würdest|magst)\b",
    r"(?:wo|wann|wen|wem|was|warum|wieso|wie|woher|wohin)(?: \w+)?? (?!(?:ich|du|er|sie|es|wir|ihr|man)\b)\w+st du\b",
    r"(?:wo|wann|was|warum|wieso|woher|wohin) (?!(?:ich|du|er|sie|es|wir|ihr|man)\b)\w+(?:t|en) (?:ihr|sie|er|es|wir|man)\b",
    r"(?:hast|bist|kannst|willst|magst|weißt|kennst|warst|hattest|gehst|kommst|machst|musst|darfst|sollst|möchtest"
    r"|könntest|würdest) du\b",
    r"(?:habt|seid|könnt|wollt|wisst|kennt|wart|geht|kommt|müsst) ihr\b|(?:haben|können|wissen|kennen|möchten|könnten"
    r"|würden) sie\b",
    r"gibt(?: es|['’]s)\b(?! (?:ja|doch)\b)|was für (?:eine?n? )?\w+ (?:hast|habt|ist|sind)\b",
)
_FRENCH = (
    r"(?:(?:où|quand|qui|que|qu['’]|quoi|pourquoi|comment|combien)\b ?|quel\w* \w+ )?est-ce qu",
    r"(?:(?:où|quand|qui|que|pourquoi|comment|combien|quel\w*)\b.* )?(?!(?:dit|fit|répondit|demanda)-)"
    r"(?:[\w'’]+(?:-t)?-(?:tu|ils?|elles?)|(?:va-t|a-t|peut|doit|fait|est)-on"
    r"|(?:avez|êtes|pouvez|voulez|savez|habitez|faites|pensez|connaissez)-vous)\b",
    r"(?:où|quand|comment|combien|quel\w*) (?:est|sont|était|étaient)\b|comment (?:ça va|tu|vous|faire|va)\b"
    r"|combien (?:ça|de)\b"
    r"|qui est (?:là|ce|cet|cette|ton|ta|votre)\b|(?:pourquoi|où) (?:tu|vous)\b",
    r"(?:tu|vous) (?!sa[iv])(?:\w+ ){1,3}(?:où|quoi|quand|comment|combien)$|c['’]est (?:quoi|qui|où|quand|combien)$",
)
_SPANISH = (
    r"¿|(?:dónde|adónde|de dónde|cuándo|cuál(?:es)?|cuántos|cuántas|por qué|a qué|con quién|de quién)\b",
    r"qué (?:(?:te|le|les|os|se) \w+|hay|es|son|era|fue|ha|has|han|habéis|hora|tal|pasa|pasó|haces?|hacéis|hacen"
    r"|hiciste|hicisteis|hicieron|quieres?|queréis|tienes?|piensas|opinas|dices|significa|estás?|compraste|vas|vais"
    r"|puedo|puedes|debo|tipo|clase)\b",
    r"quién(?:es)? (?:es|son|eres|fue|era|te|ha|está|va|viene|quiere|tiene)\b",
    r"cuánto (?:cuesta|vale|es|tiempo|dinero|falta|dura)\b|cuantos años\b",
    r"cómo (?:te (?:llamas|va|fue|sientes)|se (?:llaman?|dice|hace|escribe|llega|usa|conocieron|siente)|estás?|están"
    r"|estáis|es|son|fue|puedo|hago|haces|os|va|vas)\b",
    r"(?:donde|que|como) (?:estas|vives|trabajas|haces|hiciste|quieres|tienes|tal|te llamas|compraste|fuiste|naciste)\b",
)
_ITALIAN = (
    r"(?:dove|cosa|che cosa) (?:è|sei|siete|era|vai|vivi|abiti|abitate|vivete|lavori|hai|avete|fai|fate|stai|state"
    r"|vuoi|volete|pensi|posso|si \w+|vi siete|ti sei|dici|compri|sono (?:i|le|gli))\b(?!.*\bio\b)",
    r"come (?:stai|state|va|è andat[ao]|ti chiami|vi chiamate|si \w+|fai|fate|vi siete)\b|chi (?:è|sono|sei|ha|viene)\b",
    r"quando (?:vieni|venite|parti|torni|arrivi)(?: (?:a|in|da|al|per) \w+)?$|quando è\b|dov['’]è|com['’]è|cos['’]è",
    r"quant[ie] \w+ (?:hai|avete|ci|sono|ha)\b|quanto (?:costa|dura|ci|manca|è)\b|(?:qual|quale|quali) (?:è|sono|era)\b",
    r"che (?:ore|ora) (?:è|sono)\b|che (?:fai|fate|lavoro fai|ne pensi)\b|perché (?:mai|non (?:vieni|andiamo))\b",
)
_PORTUGUESE = (
    r"(?:onde|o que|quem|como) vocês? (?!.*\b(?:quiser\w*|é|são)\b)|(?:onde|quem|o que|quanto) (?:é|foi|são|está|fica)\b",
    r"(?:onde|o que|como|quanto) (?:moras|vives|fazes|estás|te chamas|custa|posso|vai|se (?:diz|chama|faz))\b",
    r"por que (?:você|vocês|ele|ela|não)\b|quando (?:é|foi|começa|chegas)\b|qual (?:é|foi|o|a)\b|quantos anos\b|cadê\b",
)
_DUTCH = (
    r"(?:waar|wanneer|wie|waarom|hoe|welke? \w+) (?:is|zijn|ben|bent|was|waren|heb|hebt|heeft|hebben|kun|kan|kunnen|wil"
    r"|wilt|willen|ga|gaat|gaan|doe|doen|woon|wonen|kom|komen|moet|moeten|zit|vind|werk)"
    r" (?:je|jij|jullie|u|hij|ze|we|het|ik|de|er|dat|jouw|mijn)\b",
    r"wat (?:doe|doen|wil|willen|eet|eten|vind|vinden|ga|gaan|bedoel|denk|denken|zoek) (?:je|jij|jullie|u|hij|ze|we|ik)\b",
    r"(?:heb|ben|kun|kan|wil|ga|woon|kom|zou|zit|vind|ken) (?:je|jij)\b|weet je (?:waar|hoe|wie|of|wanneer|nog)\b",
    r"(?:hebben|zijn|gaan|kunnen|willen|weten|komen) jullie\b|is er\b|hoe gaat\b|hoe laat is\b"
    r"|hoeveel \w+ (?:heb|zijn|kost)\b|waarom (?:niet|heb|ben|is)\b",
)
_SCANDINAVIAN = (
    r"(?:var|när|vem|vad|varför|hur|hvor|hvornår|når|hvem|hva|hvad|hvorfor|hvordan|varifrån)(?: \w+)?? (?:bor|är|er|mår"
    r"|gör|gjør|gør|har|kommer|heter|laver"
    r"|hedder|jobbar|jobber|arbejder|kan|ska|skal|vill|vil|träffades|møttes|mødtes|köpte|købte|kjøpte|tycker|synes|tror"
    r"|liker|gillar)"
    r" (?:du|ni|i|dere|dig|det|den|han|hun|hon|vi)\b",
    r"(?:har|kan|vill|vil|ska|skal|är|er|bor|kommer|vet|ved|mår|gillar|liker) (?:du|ni|dere)\b",
)
_POLISH = (
    r"czy\b|ile (?:kosztuje|masz)\b|(?:dlaczego|czemu) nie\b|co słychać\b|jak leci\b|co to (?:jest|było)\b",
    r"(?:gdzie|kiedy|co|jak|ile|kogo|komu|skąd|dokąd|dlaczego|czemu|który|która|jaki|jaka|jakie)\b.*"
    r"(?:(?<!\bn)(?<!\bw)asz|[eiy]sz|[aei]cie|(?<!ż)ycie|łeś|łaś|liście|łyście)\b",
    r"(?:kto|gdzie|co|jaki|jaka) (?:to )?(?:jest|był|była|są)\b",
)
_RUSSIAN = (
    r"(?:где|куда|откуда|кто|что|почему|зачем|сколько|чем|кого|кому) (?:ты|вы|тебе|вам|у тебя|у вас|это|находится|стоит"
    r"|тебя)\b",
    r"как (?:дела|тебя зовут|вас зовут|ты (?:думаешь|поживаешь|себя)|вы (?:думаете|поживаете|себя)|прош(?:ло|ла|ёл|ел))"
    r"|(?:почему|зачем) (?:не|он|она)\b",
    r"когда (?:ты|вы) \w+$|(?!вряд|едва|мало)[\w-]+ ли (?:ты|вы|у|он|она|это|мне|нам)\b|котор(?:ый|ого) час"
    r"|сколько (?:тебе|вам|времени|лет)\b",
)
_TURKISH = (
    r"(?:.* )?(?:m[ıü]|(?:değil|var|olur) mi|yok mu|m[ıiuü](?:s[ıiuü]n(?:[ıiuü]z)?|y[ıiuü][mz]|yd[ıiuü]\w{,3}))$",
    r"(?:.* )?(?:nerede(?:sin|siniz)?|nereye|nereli|kaç|nasıl|niye|neden) \w+(?:s[ıiuü]n(?:[ıiuü]z)?|[dt][ıiuü]n)$",
)
_LONGEST = 200  # characters; a longer sentence is seldom one without a mark
_OPENINGS = (
    *_ENGLISH,
    *_GERMAN,
    *_FRENCH,
    *_SPANISH,
    *_ITALIAN,
    *_PORTUGUESE,
    *_DUTCH,
    *_SCANDINAVIAN,
    *_POLISH,
    *_RUSSIAN,
    *_TURKISH,
)
_OPENING = re.compile(f"{_CALL}(?P<opening>{'|'.join(_OPENINGS)})")


def opens_as_question(sentence: str) -> bool:
    """Return whether a sentence without a mark at its end begins as one that asks."""
    text = sentence.strip().lower()
    if not text[-1:].isalnum() or len(text) > _LONGEST:
        return False
    opening = _OPENING.match(text)
    return opening is not None and "," not in text[opening.start("opening") :]
