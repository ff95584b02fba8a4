"""Commands that a page shows, each with the lines below it, and whether those are what it prints.

What differs from run to run is masked on both sides (job ids, times, pids, keys, speeds); a line `...` of a page
stands for any number of lines.
"""

import re
import unicodedata

MASKS = [
    (re.compile(r"(http://127\.0\.0\.1:)\d+"), r"\1PORT"),
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"SHA256:[A-Za-z0-9+/]{43}"), "KEY"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b"), "HASH"),
    (re.compile(r"\b(?:127|10)\.\d+\.\d+\.(\d+)\b"), r"NET.\1"),
    (re.compile(r"pid \d+"), "pid N"),
    (re.compile(r"\d+(\.\d+)? [KMG]iB"), "N iB"),
    (re.compile(r"\d+(\.\d+)? k?(B|bytes)\b"), "N bytes"),
    (re.compile(r"\d+%"), "N%"),
    (re.compile(r"[+-]?\b\d+\.\d+ s\b"), "N s"),
    (re.compile(r"\b\d+(\.\d+)?m?s\b"), "N s"),
    (re.compile(r"step \d+, test accuracy \d\.\d+, loss \d+\.\d+, \d+ steps/s"), "step"),
    (re.compile(r"epoch \d+, loss \d\.\d+"), "epoch"),
    (re.compile(r"^(\S+ +(?:NET\.\d+|h\d) +)\d+( +1 +N s)"), r"\1PID\2"),  # of `status`
    (re.compile(r"^TIME +\d+ "), "TIME N "),  # of `events`
    (re.compile(r"^([a-z][\w-]+) \d[\w.:+~-]*$"), r"\1 VERSION"),
    (re.compile(r"known_hosts line \d+"), "known_hosts line N"),
    (re.compile(r"\]:\d+"), "]:PORT"),
    (re.compile(r"(?<=\s)[\w.-]+@[\w.-]+(?=\s|$)"), "USER@MACHINE"),
    (re.compile(r" +"), " "),
]


def masked(line):
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def blocks(text, language):
    """A page's fenced blocks of one language, "" for those without."""
    return [block for kind, block in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", text) if kind == language]


def shown_commands(text):
    """What stands after `$ tfdist`, each with the lines below it."""
    commands = {}
    for block in blocks(text, ""):
        if not block.startswith("$ "):
            continue
        for line in block.splitlines():
            if line.startswith("$ tfdist "):
                words = line.removeprefix("$ tfdist ")
                assert words not in commands, f"a page shows `tfdist {words}` twice"
                commands[words] = []
            else:
                commands[words].append(line)
    return commands


def is_shown(printed, shown):
    """Whether the masked lines `printed` are those of `shown`, in which `...` is any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(is_shown(printed[skipped:], shown[1:]) for skipped in range(len(printed) + 1))
    return bool(printed) and printed[0] == shown[0] and is_shown(printed[1:], shown[1:])


def difference(printed, shown, in_order=True):
    """Of a command's output and a page's lines: empty, or both, masked."""
    order = list if in_order else sorted
    shown, printed = order(map(masked, shown)), order(map(masked, printed))
    return "" if is_shown(printed, shown) else "\n".join(["the page shows", *shown, "--- printed was", *printed])


def columns_of(text):
    """Of a terminal: characters of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
