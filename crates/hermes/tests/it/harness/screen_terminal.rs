//! The picture that a program draws line by line on its terminal, which may change its size.

use std::{
    fs::File,
    io::Write,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use crate::harness::{pty, test_home::TIMEOUT};

/// A program on a terminal of its own.
pub(crate) struct ScreenTerminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Screen>>,
    reader: JoinHandle<()>,
}

impl ScreenTerminal {
    pub(crate) fn start(command: Command, columns: u16, lines: u16) -> Self {
        let (child, keyboard) = pty::start(command, columns, lines);
        let screen = Arc::new(Mutex::new(Screen::new(usize::from(columns))));
        let output = keyboard.try_clone().unwrap();
        let drawn = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            pty::read_output(&output, |bytes| {
                drawn.lock().unwrap().write(&String::from_utf8_lossy(bytes));
            });
        });
        Self {
            child,
            keyboard,
            screen,
            reader,
        }
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What is to be seen, without empty lines at the end.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().text()
    }

    pub(crate) fn cursor_is_visible(&self) -> bool {
        self.screen.lock().unwrap().cursor_is_visible
    }

    /// Waits until the picture is as wanted, and returns it.
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let found = hermes_testkit::wait_for(TIMEOUT, || {
            let screen = self.screen.lock().unwrap();
            let text = screen.text();
            // A frame that is not whole yet has hidden the cursor.
            (screen.cursor_is_visible && holds(&text)).then_some(text)
        });
        found.unwrap_or_else(|| panic!("no {what} in\n{}", self.text()))
    }

    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        self.screen.lock().unwrap().rewrap(usize::from(columns));
        pty::set_size(&self.keyboard, columns, lines);
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        let screen = Arc::clone(&self.screen);
        let text = || screen.lock().unwrap().text();
        pty::wait(&mut self.child, &self.reader, text)
    }
}

impl Drop for ScreenTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As much of a terminal as the program uses, without a bottom edge.
struct Screen {
    lines: Vec<Vec<char>>,
    line: usize,
    column: usize,
    columns: usize,
    cursor_is_visible: bool,
    /// The beginning of an escape sequence that goes on in the next chunk.
    unfinished: String,
}

impl Screen {
    fn new(columns: usize) -> Self {
        Self {
            lines: vec![Vec::new()],
            line: 0,
            column: 0,
            columns,
            cursor_is_visible: true,
            unfinished: String::new(),
        }
    }

    fn text(&self) -> String {
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|line| line.iter().collect::<String>().trim_end().to_owned())
            .collect();
        lines.join("\n").trim_end().to_owned()
    }

    fn write(&mut self, text: &str) {
        let text = std::mem::take(&mut self.unfinished) + text;
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\x1b' => {
                    let mut sequence = String::from('\x1b');
                    sequence.extend(characters.next());
                    for next in characters.by_ref() {
                        sequence.push(next);
                        if next.is_ascii_alphabetic() {
                            break;
                        }
                    }
                    if sequence.ends_with(|last: char| last.is_ascii_alphabetic()) {
                        self.apply_sequence(&sequence);
                    } else {
                        self.unfinished = sequence;
                    }
                }
                '\r' => self.column = 0,
                '\n' => self.next_line(),
                character => self.put(character),
            }
        }
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.next_line();
            self.column = 0;
        }
        let line = &mut self.lines[self.line];
        while line.len() <= self.column {
            line.push(' ');
        }
        line[self.column] = character;
        self.column += 1;
    }

    fn next_line(&mut self) {
        self.line += 1;
        if self.lines.len() == self.line {
            self.lines.push(Vec::new());
        }
    }

    fn apply_sequence(&mut self, sequence: &str) {
        let body = sequence.trim_start_matches("\x1b[");
        let number: usize = body
            .trim_end_matches(|last: char| last.is_ascii_alphabetic())
            .parse()
            .unwrap_or(0);
        match body {
            "?25h" => self.cursor_is_visible = true,
            "?25l" => self.cursor_is_visible = false,
            "K" => self.lines[self.line].truncate(self.column),
            "J" => {
                self.lines[self.line].truncate(self.column);
                self.lines.truncate(self.line + 1);
            }
            _ if body.ends_with('A') => self.line = self.line.saturating_sub(number.max(1)),
            _ if body.ends_with('m') || body.starts_with("?2026") => {}
            _ => panic!("the program sent {sequence:?}"),
        }
    }

    /// What a terminal does to its content when it becomes narrower.
    fn rewrap(&mut self, columns: usize) {
        let below = self.lines.len() - 1 - self.line;
        let lines = std::mem::take(&mut self.lines);
        for line in lines {
            if line.is_empty() {
                self.lines.push(line);
            } else {
                self.lines
                    .extend(line.chunks(columns).map(<[char]>::to_vec));
            }
        }
        self.line = self.lines.len() - 1 - below;
        self.columns = columns;
    }
}
