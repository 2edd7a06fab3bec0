//! The translator: one pass over a pattern, with a frame for every open group.

use super::{
    Cursor, PatternError, class,
    escape::{self, RepeatCount},
};

/// Also for the product of nested repetitions.
const MAX_REPEATS: u64 = 1000;
const MAX_NESTING: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TranslatedPattern {
    pub(crate) expression: String,
    /// About how many states it has once repetitions are expanded.
    pub(crate) weight: u64,
}

pub(crate) fn translate(pattern: &str) -> Result<TranslatedPattern, PatternError> {
    let mut translator = Translator {
        cursor: Cursor::new(pattern),
        frames: Vec::new(),
        frame: GroupFrame::new("", Cursor::new(pattern)),
        after_repeat: false,
    };
    translator.run()?;
    if let Some(open) = translator.frames.last().map(|_| translator.frame.start) {
        return Err(open.error_here("a `(` is not closed"));
    }
    let whole = translator.frame.close();
    Ok(TranslatedPattern {
        expression: whole.text,
        weight: whole.weight,
    })
}

struct Atom {
    text: String,
    /// Greatest product of nested counts.
    repeats: u64,
    weight: u64,
    /// Whether it must be wrapped before it is repeated once more.
    is_repeated: bool,
}

enum Item {
    Atom(Atom),
    /// `(?i)` and the like, valid until the end of the group.
    Flags(String),
}

/// An open group: the finished alternatives, and the current one.
struct GroupFrame<'a> {
    opening: String,
    start: Cursor<'a>,
    finished: String,
    repeats: u64,
    weight: u64,
    items: Vec<Item>,
}

impl<'a> GroupFrame<'a> {
    fn new(opening: impl Into<String>, start: Cursor<'a>) -> Self {
        Self {
            opening: opening.into(),
            start,
            finished: String::new(),
            repeats: 1,
            weight: 0,
            items: Vec::new(),
        }
    }

    fn end_alternative(&mut self) {
        for item in self.items.drain(..) {
            match item {
                Item::Flags(text) => self.finished.push_str(&text),
                Item::Atom(atom) => {
                    self.finished.push_str(&atom.text);
                    self.repeats = self.repeats.max(atom.repeats);
                    self.weight = self.weight.saturating_add(atom.weight);
                }
            }
        }
    }

    fn close(mut self) -> Atom {
        self.end_alternative();
        let closing = if self.opening.is_empty() { "" } else { ")" };
        Atom {
            text: format!("{}{}{closing}", self.opening, self.finished),
            repeats: self.repeats,
            weight: self.weight,
            is_repeated: false,
        }
    }
}

struct Translator<'a> {
    cursor: Cursor<'a>,
    /// Enclosing groups.
    frames: Vec<GroupFrame<'a>>,
    frame: GroupFrame<'a>,
    after_repeat: bool,
}

impl<'a> Translator<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        while let Some(next) = self.cursor.peek() {
            let is_repeat = match next {
                '*' | '+' | '?' => {
                    let start = self.cursor;
                    self.cursor.next();
                    self.repeat(&start, None)?;
                    true
                }
                '{' => self.brace()?,
                _ => {
                    self.plain(next)?;
                    false
                }
            };
            self.after_repeat = is_repeat;
        }
        Ok(())
    }

    /// Everything but repetitions.
    fn plain(&mut self, next: char) -> Result<(), PatternError> {
        match next {
            '(' => return self.open(),
            ')' => return self.close(),
            '|' => {
                self.frame.end_alternative();
                self.frame.finished.push('|');
            }
            '[' => {
                let text = class::parse_brackets(&mut self.cursor)?;
                self.push(text);
                return Ok(());
            }
            '\\' => return self.escape(),
            '^' => self.push("^"),
            '$' => self.push(LINE_END),
            '.' => self.push("."),
            literal => self.push_literal(u32::from(literal)),
        }
        self.cursor.next();
        Ok(())
    }

    fn escape(&mut self) -> Result<(), PatternError> {
        let start = self.cursor;
        let text = match self.cursor.rest().get(..2) {
            // Lines are matched one by one, so line ends are text ends.
            Some(r"\A") => "^",
            Some(r"\z") => LINE_END,
            Some(r"\b") => r"(?-u:\b)",
            Some(r"\B") => r"(?-u:\B)",
            Some(r"\C") => return Err(start.error_here(r"`\C` is not supported")),
            Some(r"\Q") => {
                self.quoted();
                return Ok(());
            }
            _ => {
                if let Some(class) = class::parse_property(&mut self.cursor)? {
                    self.push(class);
                } else if let Some(class) = class::parse_perl(&mut self.cursor) {
                    self.push(class);
                } else {
                    let character = escape::parse_escape(&mut self.cursor)?;
                    self.push_literal(character);
                }
                return Ok(());
            }
        };
        self.push(text);
        self.cursor.skip(2);
        Ok(())
    }

    /// `\Q...\E`: all of it literal.
    fn quoted(&mut self) {
        self.cursor.skip(2);
        while !self.cursor.eat(r"\E") {
            match self.cursor.next() {
                Some(literal) => self.push_literal(u32::from(literal)),
                None => return,
            }
        }
    }

    fn open(&mut self) -> Result<(), PatternError> {
        let start = self.cursor;
        self.cursor.next();
        let opening = if self.cursor.eat("?") {
            match self.flags(&start)? {
                Some(opening) => opening,
                None => return Ok(()),
            }
        } else {
            "(?:".to_owned()
        };
        if self.frames.len() >= MAX_NESTING {
            return Err(start.error_here("groups nest deeper than 200"));
        }
        let outer = std::mem::replace(&mut self.frame, GroupFrame::new(opening, start));
        self.frames.push(outer);
        Ok(())
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let Some(outer) = self.frames.pop() else {
            return Err(self.cursor.error_here("a `)` has no `(`"));
        };
        self.cursor.next();
        let group = std::mem::replace(&mut self.frame, outer).close();
        self.frame.items.push(Item::Atom(group));
        Ok(())
    }

    /// What follows `(?`: a name, or flags. Returns the opening of a group, or `None` if only flags are set.
    fn flags(&mut self, start: &Cursor<'a>) -> Result<Option<String>, PatternError> {
        if self.cursor.eat("P<") || self.cursor.eat("<") {
            let name = self.cursor.rest().split('>').next().unwrap_or_default();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let is_closed = self.cursor.rest().len() > name.len();
            if !is_closed || name.is_empty() || !name.bytes().all(is_name) {
                return Err(start.error_here("the name of a group is malformed"));
            }
            self.cursor.skip(name.len() + 1);
            // Names are not used, and Go allows some that `regex` does not.
            return Ok(Some("(?:".to_owned()));
        }
        let mut set = String::new();
        let mut cleared = String::new();
        let mut clears = false;
        loop {
            let flag = self.cursor.next();
            let flags = if clears { &mut cleared } else { &mut set };
            match flag {
                Some(flag @ ('i' | 's' | 'U')) => {
                    if !flags.contains(flag) {
                        flags.push(flag);
                    }
                }
                // In single lines `^` and `$` mean the same with and without it.
                Some('m') => flags.push('m'),
                Some('-') if !clears => clears = true,
                Some(end @ (':' | ')')) if !clears || !cleared.is_empty() => {
                    let text = flag_text(&set, &cleared);
                    if end == ':' {
                        return Ok(Some(format!("(?{text}:")));
                    }
                    if !text.is_empty() {
                        self.frame.items.push(Item::Flags(format!("(?{text})")));
                    }
                    return Ok(None);
                }
                _ => {
                    return Err(start.error_here(format!(
                        "`{}` is neither a group nor a flag",
                        self.cursor.since(start)
                    )));
                }
            }
        }
    }

    /// A `{`: a count, or itself.
    fn brace(&mut self) -> Result<bool, PatternError> {
        let start = self.cursor;
        let Some(count) = escape::parse_count(&mut self.cursor) else {
            self.cursor.next();
            self.push_literal(u32::from('{'));
            return Ok(false);
        };
        let is_valid = |number: u32| u64::from(number) <= MAX_REPEATS;
        if !is_valid(count.min)
            || count
                .max
                .is_some_and(|most| !is_valid(most) || most < count.min)
        {
            return Err(start.error_here(format!(
                "the count `{}` is backwards or over 1000",
                self.cursor.since(&start)
            )));
        }
        self.repeat(&start, Some(count))?;
        Ok(true)
    }

    /// Repeats the last item; the operator has been read.
    fn repeat(
        &mut self,
        start: &Cursor<'a>,
        count: Option<RepeatCount>,
    ) -> Result<(), PatternError> {
        self.cursor.eat("?");
        let operator = self.cursor.since(start);
        if self.after_repeat {
            return Err(start.error_here(format!("`{operator}` repeats a repetition")));
        }
        let last = self
            .frame
            .items
            .iter_mut()
            .rev()
            .find_map(|item| match item {
                Item::Atom(atom) => Some(atom),
                Item::Flags(_) => None,
            });
        let Some(atom) = last else {
            return Err(start.error_here(format!("`{operator}` has nothing to repeat")));
        };
        let text = std::mem::take(&mut atom.text);
        atom.text = if atom.is_repeated {
            format!("(?:{text}){operator}")
        } else {
            format!("{text}{operator}")
        };
        atom.is_repeated = true;
        let Some(count) = count else { return Ok(()) };
        let factor = u64::from(count.max.unwrap_or(count.min));
        atom.weight = atom.weight.saturating_mul(factor.max(1));
        atom.repeats = if count.max == Some(0) {
            1
        } else {
            atom.repeats.saturating_mul(factor.max(1))
        };
        if factor >= 2 && atom.repeats > MAX_REPEATS {
            return Err(start.error_here("repetitions within repetitions come to more than 1000"));
        }
        Ok(())
    }

    fn push(&mut self, text: impl Into<String>) {
        let text = text.into();
        // A Unicode class has several states, one for each byte of its characters.
        let weight = if text.contains(r"\p") || text.contains(r"\P") || !text.is_ascii() {
            4
        } else {
            1
        };
        self.frame.items.push(Item::Atom(Atom {
            text,
            repeats: 1,
            weight,
            is_repeated: false,
        }));
    }

    fn push_literal(&mut self, value: u32) {
        match char::from_u32(value) {
            Some(character) => self.push(regex::escape(character.encode_utf8(&mut [0; 4]))),
            None => self.push(class::NOTHING),
        }
    }
}

/// The end of a line, before an optional carriage return.
const LINE_END: &str = r"(?:\r?$)";

/// Flags in the syntax of `regex`, without `m`.
fn flag_text(set: &str, cleared: &str) -> String {
    let known = |flags: &str| -> String { flags.chars().filter(|flag| *flag != 'm').collect() };
    let (cleared, set) = (known(cleared), known(set));
    // A flag that is both set and cleared is cleared.
    let set: String = set
        .chars()
        .filter(|flag| !cleared.contains(*flag))
        .collect();
    if cleared.is_empty() {
        set
    } else {
        format!("{set}-{cleared}")
    }
}
