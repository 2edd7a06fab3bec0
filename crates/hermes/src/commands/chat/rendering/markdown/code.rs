//! Simple highlighting of code: comments, strings, numbers and the words that languages keep for themselves.
//!
//! No grammar is known. A line at a time is enough for what a chat shows, and nothing waits longer than a word.

use crate::commands::chat::rendering::style::{Attribute, Colour, Style};

/// The line of a block of code that is being written.
#[derive(Debug)]
pub(super) struct CodeHighlighter {
    language: Language,
    state: CodeState,
    /// What waits for the next character: a word, or the beginning of a comment.
    held: String,
    is_line_start: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeState {
    Normal,
    /// Inside of a string; whether the next character is escaped.
    Text {
        quote: char,
        is_escaped: bool,
    },
    /// The rest of the line looks like this.
    Rest(Style),
}

/// What is known of a language.
#[derive(Debug, Clone, Copy)]
struct Language {
    comment: &'static str,
    quotes: &'static str,
    words: &'static [&'static str],
    kind: LanguageKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LanguageKind {
    Code,
    Diff,
    Plain,
}

const RUST: &[&str] = &[
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "Self", "static", "struct", "super", "trait", "true", "type",
    "unsafe", "use", "where", "while",
];
const SCRIPT: &[&str] = &[
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "of",
    "private",
    "public",
    "readonly",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "yield",
];
const SYSTEMS: &[&str] = &[
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "chan",
    "char",
    "class",
    "const",
    "continue",
    "default",
    "defer",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "extends",
    "false",
    "final",
    "float",
    "for",
    "fun",
    "func",
    "go",
    "goto",
    "if",
    "implements",
    "import",
    "int",
    "interface",
    "long",
    "map",
    "namespace",
    "new",
    "nil",
    "null",
    "nullptr",
    "package",
    "private",
    "protected",
    "public",
    "range",
    "return",
    "select",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typedef",
    "union",
    "unsigned",
    "using",
    "val",
    "var",
    "void",
    "while",
];
const PYTHON: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "False", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "None", "nonlocal", "not", "or", "pass", "raise", "return", "self", "True", "try",
    "while", "with", "yield",
];
const SHELL: &[&str] = &[
    "case", "do", "done", "elif", "else", "esac", "exit", "export", "fi", "for", "function", "if",
    "in", "local", "return", "set", "then", "until", "while",
];
const DATA: &[&str] = &["true", "false", "null", "yes", "no"];
const SQL: &[&str] = &[
    "alter", "and", "as", "asc", "between", "by", "case", "create", "delete", "desc", "distinct",
    "drop", "else", "end", "exists", "from", "group", "having", "in", "index", "inner", "insert",
    "into", "is", "join", "left", "limit", "not", "null", "on", "or", "order", "primary", "select",
    "set", "table", "then", "union", "unique", "update", "values", "when", "where", "with",
];

impl Language {
    fn from_name(name: &str) -> Self {
        let code = |comment, quotes, words| Self {
            comment,
            quotes,
            words,
            kind: LanguageKind::Code,
        };
        match name.to_ascii_lowercase().as_str() {
            // A quote before a lifetime opens nothing.
            "rust" | "rs" => code("//", "\"", RUST),
            "js" | "javascript" | "jsx" | "ts" | "typescript" | "tsx" => code("//", "\"'`", SCRIPT),
            "c" | "cpp" | "c++" | "h" | "hpp" | "go" | "java" | "kotlin" | "swift" | "cs"
            | "csharp" | "php" | "scala" | "zig" => code("//", "\"'`", SYSTEMS),
            "py" | "python" | "rb" | "ruby" => code("#", "\"'", PYTHON),
            "sh" | "bash" | "zsh" | "fish" | "shell" | "console" | "dockerfile" | "make"
            | "makefile" => code("#", "\"'", SHELL),
            "yaml" | "yml" | "toml" | "ini" | "env" => code("#", "\"'", DATA),
            "json" | "jsonc" | "json5" => code("//", "\"", DATA),
            "sql" | "sqlite" | "postgres" | "lua" => code("--", "\"'", SQL),
            "diff" | "patch" => Self {
                kind: LanguageKind::Diff,
                ..Self::PLAIN
            },
            _ => Self::PLAIN,
        }
    }

    const PLAIN: Self = Self {
        comment: "",
        quotes: "",
        words: &[],
        kind: LanguageKind::Plain,
    };

    fn has_word(&self, word: &str) -> bool {
        // Only SQL is written in capitals as well.
        let is_sql = self.words.first() == SQL.first();
        self.words.contains(&word) || is_sql && self.words.contains(&&*word.to_lowercase())
    }
}

impl CodeHighlighter {
    pub(super) fn new(language: &str) -> Self {
        Self {
            language: Language::from_name(language),
            state: CodeState::Normal,
            held: String::new(),
            is_line_start: true,
        }
    }

    pub(super) fn push(&mut self, character: char, sink: &mut dyn FnMut(char, Style)) {
        let is_line_start = std::mem::take(&mut self.is_line_start);
        if is_line_start && self.language.kind == LanguageKind::Diff {
            self.state = CodeState::Rest(match character {
                '+' => Style::PLAIN.coloured(Colour::Green),
                '-' => Style::PLAIN.coloured(Colour::Red),
                '@' => Style::PLAIN.coloured(Colour::Cyan),
                _ => Style::PLAIN,
            });
        }
        match self.state {
            _ if self.language.kind == LanguageKind::Plain => sink(character, Style::PLAIN),
            CodeState::Rest(style) => sink(character, style),
            CodeState::Text { quote, is_escaped } => {
                sink(character, string_style());
                self.state = if character == quote && !is_escaped {
                    CodeState::Normal
                } else {
                    CodeState::Text {
                        quote,
                        is_escaped: character == '\\' && !is_escaped,
                    }
                };
            }
            CodeState::Normal => self.normal(character, sink),
        }
    }

    fn normal(&mut self, character: char, sink: &mut dyn FnMut(char, Style)) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let continues_word = is_word(character) && self.held.chars().all(is_word);
        let begins = |text: &str| !text.is_empty() && self.language.comment.starts_with(text);
        let comment = format!("{}{character}", self.held);
        if continues_word {
            self.held.push(character);
            return;
        }
        let with_held = if begins(&comment) {
            Some(comment)
        } else {
            self.release(sink);
            let alone = character.to_string();
            begins(&alone).then_some(alone)
        };
        match with_held {
            Some(text) if text == self.language.comment => {
                let style = Style::PLAIN.with(Attribute::Faint);
                text.chars().for_each(|character| sink(character, style));
                self.held.clear();
                self.state = CodeState::Rest(style);
            }
            Some(text) => self.held = text,
            None if is_word(character) => self.held.push(character),
            None if self.language.quotes.contains(character) => {
                sink(character, string_style());
                self.state = CodeState::Text {
                    quote: character,
                    is_escaped: false,
                };
            }
            None => sink(character, Style::PLAIN),
        }
    }

    /// Shows the word that was waited for.
    fn release(&mut self, sink: &mut dyn FnMut(char, Style)) {
        let word = std::mem::take(&mut self.held);
        let style = if self.language.has_word(&word) {
            Style::PLAIN.coloured(Colour::Magenta)
        } else if word.starts_with(|first: char| first.is_ascii_digit()) {
            Style::PLAIN.coloured(Colour::Yellow)
        } else {
            Style::PLAIN
        };
        word.chars().for_each(|character| sink(character, style));
    }

    /// The end of a line. Strings do not go over it.
    pub(super) fn end_line(&mut self, sink: &mut dyn FnMut(char, Style)) {
        self.release(sink);
        self.state = CodeState::Normal;
        self.is_line_start = true;
    }
}

fn string_style() -> Style {
    Style::PLAIN.coloured(Colour::Green)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter below each character: keyword, string, number, comment; red, green, cyan of a diff.
    fn coloured(language: &str, line: &str) -> String {
        let mut out = String::new();
        let mut shown = String::new();
        let mut sink = |character: char, style: Style| {
            shown.push(character);
            let letter = [
                ('k', Style::PLAIN.coloured(Colour::Magenta)),
                ('s', Style::PLAIN.coloured(Colour::Green)),
                ('n', Style::PLAIN.coloured(Colour::Yellow)),
                ('c', Style::faint()),
                ('r', Style::PLAIN.coloured(Colour::Red)),
                ('y', Style::PLAIN.coloured(Colour::Cyan)),
            ]
            .into_iter()
            .find(|(_, known)| *known == style);
            out.push(letter.map_or('.', |(letter, _)| letter));
        };
        let mut code = CodeHighlighter::new(language);
        line.chars().for_each(|c| code.push(c, &mut sink));
        code.end_line(&mut sink);
        assert_eq!(shown, line);
        out
    }

    #[test]
    fn words_strings_numbers_and_comments_are_told_apart() {
        assert_eq!(
            coloured("rust", r#"let a = "x\"y" // b"#),
            "kkk.....ssssss.cccc"
        );
        assert_eq!(coloured("python", "return 42 # a 'b'"), "kkkkkk.nn.ccccccc");
        assert_eq!(coloured("rust", "a / b 'static"), ".......kkkkkk");
        assert_eq!(coloured("sql", "SELECT x -- y"), "kkkkkk...cccc");
    }

    #[test]
    fn a_diff_is_coloured_by_its_first_character() {
        assert_eq!(coloured("diff", "+a"), "ss");
        assert_eq!(coloured("diff", "-a"), "rr");
        assert_eq!(coloured("diff", "@@ 1"), "yyyy");
        assert_eq!(coloured("diff", " a"), "..");
    }

    #[test]
    fn an_unknown_language_is_left_alone() {
        assert_eq!(coloured("", "if \"a\" // 1"), "...........");
    }
}
