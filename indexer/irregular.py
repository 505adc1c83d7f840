"""Irregular English forms and the words that they belong to, which no stemmer's rules reach. Pure.

Left out are forms that are commoner as words of their own (bit, ground, lay, wound), and be, do and have, which are
stop words.
"""

from __future__ import annotations

import re

_GROUPS = """
become became / begin began begun / bend bent / bind bound / bleed bled / blow blew blown / break broke broken / breed bred /
bring brought / build built / burn burnt / buy bought / catch caught / choose chose chosen / cling clung / come came / creep crept /
deal dealt / dig dug / draw drew drawn / dream dreamt / drink drank drunk / drive drove driven / eat ate eaten / fall fell fallen /
feed fed / feel felt / fight fought / find found / flee fled / fly flew flown / forbid forbade forbidden / forget forgot forgotten /
forgive forgave forgiven / freeze froze frozen / get got gotten / give gave given / go went gone / grow grew grown / hang hung /
hear heard / hide hid hidden / hold held / keep kept / kneel knelt / know knew known / lead led / lean leant / leap leapt /
learn learnt / leave left / lend lent / light lit / lose lost / make made / mean meant / meet met / pay paid / prove proven /
ride rode ridden / ring rang rung / rise rose risen / run ran / say said / see saw seen / seek sought / sell sold / send sent /
sew sewn / shake shook shaken / shine shone / shoot shot / show shown / shrink shrank shrunk / sing sang sung / sink sank sunk /
sit sat / sleep slept / slide slid / sow sown / speak spoke spoken / spend spent / spill spilt / spin spun / spoil spoilt /
stand stood / steal stole stolen / stick stuck / sting stung / strike struck / string strung / strive strove /
swear swore sworn / sweep swept / swell swollen / swim swam swum / swing swung / take took taken / teach taught / tear tore torn /
tell told / think thought / throw threw thrown / understand understood / wake woke woken / wear wore worn / weave wove woven /
weep wept / win won / write wrote written / withdraw withdrew withdrawn /
child children / man men / woman women / foot feet / tooth teeth / mouse mice / goose geese / person people / life lives /
wife wives / knife knives / leaf leaves / half halves / shelf shelves / loaf loaves / wolf wolves / thief thieves / ox oxen /
datum data / index indices / matrix matrices / vertex vertices / axis axes / crisis crises / analysis analyses /
hypothesis hypotheses / criterion criteria / phenomenon phenomena / medium media / basis bases / fungus fungi / radius radii
"""
BASE = {form: words[0] for words in (group.split() for group in _GROUPS.split("/")) for form in words[1:]}
"""The word of every irregular form."""

_LETTERS = re.compile(r"[a-z]{3,}")
_WORD = re.compile(r"(?<![^\W_])[a-z]{3,}(?![^\W_])")


def regular(text: str) -> str:
    """*text*, in lower case, with irregular forms replaced by their words."""
    return _WORD.sub(_word, text) if not BASE.keys().isdisjoint(_LETTERS.findall(text)) else text


def _word(m: re.Match[str]) -> str:
    return BASE.get(m[0], m[0])
