"""Recognizes secrets: names of passwords and tokens, and texts that look like tokens."""

import re
from functools import lru_cache
from typing import Final

# Texts up to this length are searched; recipes with longer ones are not kept.
MOST_CHARACTERS: Final = 65_536
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
# Names of secrets, in lower case with words joined by _; not `author` or `sort_key`.
_SECRET_NAME = re.compile(
    r"auth(?!or(?!i[sz])|entic(?!at))|bearer|cookie|credential|csrf|hmac|jwt|pass(?:code|phrase|w)|proxy"
    r"|pwd|secret(?!ar)|sessid|session|signature|token(?!iz|s?_count)|xsrf|user_?pass|client_assertion"
    r"|contrase[n_]a|kennwort|mot_de_passe|wachtwoord"
    r"|(?:access|account|api|app|application|client|consumer|developer|encryption|functions|licen[cs]e"
    r"|master|private|service|shared|signing|ssh|subscription|webhook)_?keys?(?:_|$)"
    r"|card_?(?:number|no)(?:_|$)|connection_string|login_hash|mnemonic|seed_phrase|verifier|webhook_url"
    r"|(?:mfa|pin|recovery|security|sms|unlock|verification)_?(?:answer|code)(?:_|$)"
    r"|(?:^|_)(?:2fa|creds?|cv[cv]|dsn|http_user|nonce|pass|pin|pw|salt|saml|sas|senha|sess|sid|sig|sso|t?otp)"
    r"(?:_|$)"
)
# A name and its value in a text, as in JSON, a query or a form.
_NAME_WITH_VALUE = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]{0,60})[\"']?\s?[=:]\s?[\"']?[^\s\"'=:,;&]"
)
# Tokens: a login in a URL, a service's prefix, long hexadecimal or mixed text; not UUIDs, nor
# database ids of 24 hexadecimal digits.
_SECRET_VALUE = re.compile(
    r"\b(?:Basic|Bearer|Digest|Token)\s+(?=\S*(?:[0-9=]|[a-z][A-Z]))\S{8}"
    r"|://[^/?#\s@]+@|(?<![\w.%-])(?!(?:acct|mailto|sip|xmpp):)[\w.%-]+:[^\s/@:]+@[\w-]+[.:]"
    r"|\beyJ[\w-]{8,}\.[\w-]+\."
    r"|\b(?:gh[a-z]_|github_pat_|glpat-|[prs]k_(?:live|test)_|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|hf_|npm_"
    r"|pypi-|shp[a-z]{2}_|SG\.|sk-(?:ant|proj)-)[\w.-]{12}"
    r"|\b[0-9]{8,10}:[\w-]{30}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![0-9A-Za-z])(?:[0-9a-fA-F]{32,}(?![0-9A-Za-z])"
    r"|(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{20}"
    r"|(?![0-9a-f]{24}\b)(?=(?:[A-Za-z]+[0-9]+){3})[A-Za-z0-9]{16}"
    r"|(?=\S*[0-9])(?=\S*[a-z][A-Z])[A-Za-z0-9+/]{40}(?![\w+/=.-]))"
)


def has_secret(value: object) -> bool:
    """Whether the value, at any depth, has a secret's name or a text that looks like a secret."""
    if isinstance(value, str):
        value = value[:MOST_CHARACTERS]
        names = _NAME_WITH_VALUE.finditer(value)
        return bool(_SECRET_VALUE.search(value)) or any(is_secret_name(item[1]) for item in names)
    if isinstance(value, dict):
        if "value" in value and any(is_secret_name(str(value.get(key))) for key in ("name", "key")):
            return True  # a field of a form, or a cookie as browsers write it
        return any(
            (not isinstance(item, bool) and item and is_secret_name(str(name)))
            or has_secret(item)
            or _SECRET_VALUE.search(str(name))
            for name, item in value.items()  # a flag such as `dont_merge_cookies` is not a secret
        )
    if isinstance(value, list | tuple):
        # form fields may be given as pairs
        is_pair = len(value) == 2 and isinstance(value[0], str)
        return (is_pair and is_secret_name(value[0])) or any(map(has_secret, value))
    return False


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether headers, parameters or fields of this name hold secrets."""
    return _SECRET_NAME.search(_BETWEEN_WORDS.sub("_", name).lower()) is not None
