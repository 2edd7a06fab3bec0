//! The only writer while a chat runs, so that text, running calls, server updates and questions never mix.
//!
//! On a terminal, lines about what is under way stand at the bottom and are drawn over; everything else goes above
//! them. While a question is open nothing is written at all. Elsewhere answers go to stdout and the rest to stderr.

use std::sync::{Arc, mpsc::SyncSender};

use hermes_agent::{
    message::ToolCall,
    printable::{ControlStripper, printable},
    turn::TurnEvent,
};
use hermes_config::{
    ServerName,
    sync::{Mutex, MutexGuard},
};

use unicode_width::UnicodeWidthStr as _;

use crate::{
    commands::chat::rendering::{
        calls::RunningCall,
        markdown::Markdown,
        style::{ColourMode, strip_colours},
    },
    output::{Output, terminal},
};

mod events;
mod waiting;

use waiting::WaitingLine;

/// Where a chat is shown. Clones are the same screen.
#[derive(Clone)]
pub(crate) struct Screen {
    inner: Arc<Mutex<ScreenState>>,
}

/// How much of a tool call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallDetail {
    /// One line.
    Brief,
    /// Arguments and result too.
    Full,
}

/// What the screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenKind {
    Terminal,
    /// A file or a pipe.
    Plain,
}

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputStream {
    Out,
    Err,
}

type ScreenWriter = Box<dyn FnMut(OutputStream, &str) + Send>;

struct ScreenState {
    kind: ScreenKind,
    paint: ColourMode,
    detail: CallDetail,
    write: ScreenWriter,
    size: fn() -> (usize, usize),
    /// The answer that is being written.
    text: Option<AnswerText>,
    running: Vec<RunningCall>,
    /// Nothing has come yet of what the model was asked.
    waiting: Option<WaitingLine>,
    /// How wide the lines at the bottom are that are drawn over.
    drawn: Vec<usize>,
    /// Whether a question has the screen.
    is_locked: bool,
    /// What waits for the end of a question or of a line.
    queue: Vec<String>,
    /// While a line is typed, what others write goes through its editor.
    editor: Option<SyncSender<String>>,
    todo: Vec<String>,
}

struct AnswerText {
    stripper: ControlStripper,
    markdown: Option<Markdown>,
    /// Whether the last character was a line end.
    is_at_line_start: bool,
}

impl Screen {
    /// The screen of this process.
    pub(crate) fn new(output: Output, detail: CallDetail) -> Self {
        let kind = if output.is_interactive() {
            ScreenKind::Terminal
        } else {
            ScreenKind::Plain
        };
        let paint = if output.has_colour() {
            ColourMode::Coloured
        } else {
            ColourMode::Plain
        };
        let write = Box::new(move |stream, text: &str| match stream {
            // What it draws is clean, but for its own sequences.
            OutputStream::Out if output.is_interactive() => output.draw(text),
            OutputStream::Out => {
                output.stream(text);
            }
            OutputStream::Err => output.note(text.strip_suffix('\n').unwrap_or(text)),
        });
        Self::with_writer(kind, paint, detail, write, terminal::terminal_size)
    }

    fn with_writer(
        kind: ScreenKind,
        paint: ColourMode,
        detail: CallDetail,
        write: ScreenWriter,
        size: fn() -> (usize, usize),
    ) -> Self {
        let inner = ScreenState {
            kind,
            paint,
            detail,
            write,
            size,
            text: None,
            running: Vec::new(),
            waiting: None,
            drawn: Vec::new(),
            is_locked: false,
            queue: Vec::new(),
            editor: None,
            todo: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.inner.lock()
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.lock().kind == ScreenKind::Terminal
    }

    pub(crate) fn paint(&self) -> ColourMode {
        self.lock().paint
    }

    /// How wide a line may be.
    pub(crate) fn width(&self) -> usize {
        self.lock().width()
    }

    pub(crate) fn detail(&self) -> CallDetail {
        self.lock().detail
    }

    pub(crate) fn set_detail(&self, detail: CallDetail) {
        self.lock().detail = detail;
    }

    /// Lines that were asked for. They are data.
    pub(crate) fn say(&self, text: &str) {
        self.lock().write_lines(OutputStream::Out, text);
    }

    /// Lines beside the data: news, hints, tool calls.
    pub(crate) fn note(&self, text: &str) {
        self.lock().write_lines(OutputStream::Err, text);
    }

    /// The model is asked.
    pub(crate) fn begin_turn(&self) {
        let mut inner = self.lock();
        inner.waiting = Some(WaitingLine::new());
        inner.redraw();
    }

    /// Servers are waited for before the model can be asked.
    pub(crate) fn wait_for_servers(&self, servers: &[ServerName]) {
        let mut inner = self.lock();
        inner.waiting = Some(WaitingLine::for_servers(servers));
        inner.redraw();
    }

    /// The turn has ended.
    pub(crate) fn end_turn(&self) {
        let mut inner = self.lock();
        inner.end_text();
        inner.waiting = None;
        inner.running.clear();
        inner.redraw();
    }

    /// Shows something of a turn.
    pub(crate) fn show(&self, event: &TurnEvent) {
        self.lock().show(event);
    }

    /// A call that the user makes begins.
    pub(crate) fn begin_call(&self, call: &ToolCall) {
        let mut inner = self.lock();
        inner.running.push(RunningCall::new(call));
        inner.redraw();
    }

    /// It says how far it is.
    pub(crate) fn call_progress(&self, id: &str, line: &str) {
        self.lock().show_progress(id, line);
    }

    /// It has ended; what came of it is shown otherwise.
    pub(crate) fn end_call(&self, id: &str) {
        let mut inner = self.lock();
        inner.running.retain(|running| running.id != id);
        inner.redraw();
    }

    /// Draws what is under way again, with the time it has taken by now.
    pub(crate) fn redraw(&self) {
        let mut inner = self.lock();
        if !inner.drawn.is_empty() || inner.is_busy() {
            inner.redraw();
        }
    }

    /// A line is being typed from now on; other output goes through its editor.
    pub(crate) fn begin_editing(&self, editor: SyncSender<String>) {
        self.lock().editor = Some(editor);
    }

    /// Whether a line is being typed.
    pub(crate) fn is_editing(&self) -> bool {
        self.lock().editor.is_some()
    }

    /// The line is complete.
    pub(crate) fn end_editing(&self) {
        self.lock().editor = None;
    }

    /// Holds back all other output until the guard is dropped.
    pub(crate) fn lock_output(&self) -> ScreenLock {
        let mut inner = self.lock();
        inner.end_text();
        inner.erase();
        inner.is_locked = true;
        ScreenLock {
            screen: self.clone(),
        }
    }

    /// Sends a control sequence to the terminal.
    pub(crate) fn write_sequence(&self, sequence: &str) {
        (self.lock().write)(OutputStream::Out, sequence);
    }

    /// Clears the terminal.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        if inner.kind == ScreenKind::Terminal {
            (inner.write)(OutputStream::Out, "\x1b[2J\x1b[3J\x1b[H");
        }
    }
}

/// Exclusive use of the screen by a question.
pub(crate) struct ScreenLock {
    screen: Screen,
}

impl ScreenLock {
    /// Writes text of the question to stderr.
    pub(crate) fn say(&self, text: &str) {
        let mut inner = self.screen.lock();
        (inner.write)(OutputStream::Err, &format!("{text}\n"));
    }
}

impl Drop for ScreenLock {
    fn drop(&mut self) {
        let mut inner = self.screen.lock();
        inner.is_locked = false;
        inner.flush();
        inner.redraw();
    }
}

impl ScreenState {
    fn width(&self) -> usize {
        match self.kind {
            ScreenKind::Terminal => (self.size)().0.saturating_sub(1).max(20),
            ScreenKind::Plain => 120,
        }
    }

    fn is_busy(&self) -> bool {
        self.waiting.is_some() || !self.running.is_empty()
    }

    /// More of an answer.
    fn write_text(&mut self, piece: &str) {
        if self.is_locked {
            // No answer is written while its tools ask; what comes anyway must not disturb.
            self.queue.push(printable(piece).into_owned());
            return;
        }
        self.erase();
        self.waiting = None;
        let (columns, rows) = (self.size)();
        let renders = self.kind == ScreenKind::Terminal;
        let text = self.text.get_or_insert_with(|| AnswerText {
            stripper: ControlStripper::default(),
            markdown: renders.then(|| Markdown::new(columns, rows)),
            is_at_line_start: true,
        });
        let mut clean = String::new();
        text.stripper.push(piece, &mut clean);
        if clean.is_empty() {
            return;
        }
        let mut shown = String::new();
        if let Some(markdown) = &mut text.markdown {
            markdown.resize(columns, rows);
            markdown.push(&clean, &mut shown);
            text.is_at_line_start = markdown.is_at_line_start();
        } else {
            text.is_at_line_start = clean.ends_with('\n');
            shown = clean;
        }
        let rows = text.markdown.as_ref().and_then(Markdown::waiting_rows);
        self.write_answer(&shown);
        if let Some(rows) = rows {
            self.waiting
                .get_or_insert_with(WaitingLine::new)
                .set_table_rows(rows);
            self.redraw();
        }
    }

    fn end_text(&mut self) {
        let Some(mut text) = self.text.take() else {
            return;
        };
        self.erase();
        let mut rest = String::new();
        let mut clean = String::new();
        text.stripper.finish(&mut clean);
        match &mut text.markdown {
            Some(markdown) => {
                markdown.push(&clean, &mut rest);
                markdown.finish(&mut rest);
            }
            None if text.is_at_line_start => rest = clean,
            None => rest.push('\n'),
        }
        self.write_answer(&rest);
        self.flush();
    }

    /// Writes what was rendered. Where no colours are wanted, bold and its like stay: they are not colours, and headings
    /// would be lost without them.
    fn write_answer(&mut self, rendered: &str) {
        match self.paint {
            ColourMode::Coloured => (self.write)(OutputStream::Out, rendered),
            ColourMode::Plain => (self.write)(OutputStream::Out, &strip_colours(rendered)),
        }
    }

    /// Writes lines above what is drawn over, as soon as that is possible.
    fn write_lines(&mut self, stream: OutputStream, text: &str) {
        if let Some(editor) = &self.editor {
            // A full channel means that nobody types any more.
            if editor.try_send(text.to_owned()).is_ok() {
                return;
            }
        }
        if self.kind == ScreenKind::Plain && !self.is_locked {
            self.end_text();
            (self.write)(stream, &format!("{text}\n"));
            return;
        }
        self.queue.push(text.to_owned());
        self.flush();
        self.redraw();
    }

    /// Writes what waits, unless it would tear a line or a question apart.
    fn flush(&mut self) {
        let is_inside_line = self
            .text
            .as_ref()
            .is_some_and(|text| !text.is_at_line_start);
        if self.is_locked || is_inside_line || self.queue.is_empty() {
            return;
        }
        self.erase();
        let text: String = self.queue.drain(..).map(|line| line + "\n").collect();
        let stream = match self.kind {
            ScreenKind::Terminal => OutputStream::Out,
            ScreenKind::Plain => OutputStream::Err,
        };
        (self.write)(stream, &text);
    }

    fn erase(&mut self) {
        let back = self.erase_sequence();
        if !back.is_empty() {
            (self.write)(OutputStream::Out, &back);
            self.drawn.clear();
        }
    }

    /// What leads to the first of the lines that are drawn over, and clears them. A terminal that has become narrower
    /// since has broken them into several.
    fn erase_sequence(&self) -> String {
        let columns = (self.size)().0.max(1);
        let rows = self
            .drawn
            .iter()
            .map(|width| width.div_ceil(columns).max(1));
        match rows.sum::<usize>() {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// Draws the lines about what is under way over the old ones.
    fn redraw(&mut self) {
        let is_inside_line = self
            .text
            .as_ref()
            .is_some_and(|text| !text.is_at_line_start);
        if self.kind == ScreenKind::Plain
            || self.is_locked
            || is_inside_line
            || self.editor.is_some()
        {
            return;
        }
        let (width, rows) = (self.width(), (self.size)().1);
        let lines_in = |paint: ColourMode| {
            let running = self.running.iter().map(|it| it.render(paint, width));
            let waiting = self.waiting.iter().map(|it| it.render(paint, width));
            // Lines that leave the screen at its top could not be drawn over.
            let most = rows.saturating_sub(2).max(1);
            running.chain(waiting).take(most).collect::<Vec<String>>()
        };
        let mut frame = self.erase_sequence();
        frame.push_str(&lines_in(self.paint).join("\n"));
        let widths = lines_in(ColourMode::Plain);
        self.drawn = widths.iter().map(|line| line.width()).collect();
        if !frame.is_empty() {
            (self.write)(OutputStream::Out, &frame);
        }
    }
}

#[cfg(test)]
mod tests;
