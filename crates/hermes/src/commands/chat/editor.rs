//! The line that is typed: a line editor in a thread of its own, since it waits for keys.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc as blocking,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hermes_config::private_file::open_private_append;
use reedline::{
    Color, ColumnarMenu, DefaultHinter, EditCommand, Emacs, ExternalPrinter, FileBackedHistory,
    KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    default_emacs_keybindings,
};
use tokio::sync::mpsc;

use super::screen::Screen;
use crate::commands::chat::{
    editor::type_ahead::{EditorStart, TypeAhead},
    rendering::style::ColourMode,
};

mod completion;
mod prompt;
pub(crate) mod type_ahead;

pub(crate) use completion::{CompletionWord, CompletionWords};
use prompt::{ContinuationValidator, InputHighlighter, LinePrompt};

/// What the person did.
#[derive(Debug)]
pub(crate) enum EditorInput {
    /// Entered this.
    Text(String),
    /// Pressed Ctrl-C with nothing on the line.
    Interrupt,
    /// Pressed Ctrl-D, or the terminal is gone.
    End,
    /// The terminal cannot be used.
    Failed(String),
}

pub(crate) struct Editor {
    screen: Screen,
    /// Asks the thread to read a line. Closed, it ends.
    line_requests: Option<blocking::Sender<EditorStart>>,
    typed: mpsc::Receiver<EditorInput>,
    printer: blocking::SyncSender<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the editor may fail with one line before that is the end.
const MAX_FAILURES: u32 = 3;
/// How long the thread may take to end, and how often that is polled.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How many entries are remembered.
const HISTORY_ENTRIES: usize = 5000;
/// Messages that wait to be shown; more than a person reads at once.
const MESSAGE_QUEUE: usize = 256;
const MENU: &str = "words";

impl Editor {
    /// Starts the thread. Entries are remembered in the file, which only its owner may read.
    pub(crate) fn start(
        screen: Screen,
        history: &Path,
        vocabulary: Arc<CompletionWords>,
    ) -> io::Result<Self> {
        let printer = ExternalPrinter::new(MESSAGE_QUEUE);
        let sender = printer.sender();
        let stop = Arc::new(AtomicBool::new(false));
        let paint = screen.paint();
        let history = open_history(history);
        let editor = build_editor(history, vocabulary, printer, stop.clone(), paint);
        let (wanted, wishes) = blocking::channel();
        // One line at a time is asked for.
        let (input_sender, typed) = mpsc::channel(1);
        let thread = std::thread::Builder::new()
            .name("editor".into())
            .spawn(move || read_lines(editor, paint, &wishes, &input_sender))?;
        Ok(Self {
            screen,
            line_requests: Some(wanted),
            typed,
            printer: sender,
            stop,
            thread: Some(thread),
        })
    }

    /// Shows the prompt and waits for a line, unless one was entered ahead. Dropping the future leaves the prompt
    /// where it is, and the next call goes on with it.
    pub(crate) async fn read(&mut self, type_ahead: &mut TypeAhead) -> EditorInput {
        if !self.screen.is_editing() {
            let beginning = type_ahead.next_input();
            let wanted = self.line_requests.as_ref();
            if wanted.is_none_or(|wanted| wanted.send(beginning).is_err()) {
                return EditorInput::End;
            }
            self.screen.begin_editing(self.printer.clone());
        }
        let typed = self.typed.recv().await.unwrap_or(EditorInput::End);
        self.screen.end_editing();
        typed
    }

    /// Takes the prompt away and ends the thread.
    pub(crate) fn close(&mut self) {
        self.line_requests = None;
        self.stop.store(true, Ordering::Relaxed);
        self.screen.end_editing();
        if let Some(thread) = self.thread.take() {
            let began = Instant::now();
            while !thread.is_finished() && began.elapsed() < CLOSE_TIMEOUT {
                std::thread::sleep(CLOSE_POLL_INTERVAL);
            }
            // Otherwise the terminal has gone, which the thread reads from without end: it ends with the process.
            if thread.is_finished() {
                // A panic in there has been reported already.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.close();
    }
}

fn read_lines(
    mut editor: Reedline,
    paint: ColourMode,
    wishes: &blocking::Receiver<EditorStart>,
    input_sender: &mpsc::Sender<EditorInput>,
) {
    let line = LinePrompt::new(paint);
    // The editor clears its text before it tells of Ctrl-C.
    let had_text = Arc::new(AtomicBool::new(false));
    editor = editor.with_highlighter(Box::new(InputHighlighter::new(paint, had_text.clone())));
    while let Ok(beginning) = wishes.recv() {
        let (text, is_entered) = match beginning {
            EditorStart::Entered(line) => (line, true),
            EditorStart::Text(text) => (text, false),
            EditorStart::End => {
                // Nobody will ask again.
                let _ = input_sender.blocking_send(EditorInput::End);
                return;
            }
        };
        if !text.is_empty() {
            editor.run_edit_commands(&[EditCommand::InsertString(text)]);
        }
        editor = editor.with_immediately_accept(is_entered);
        let mut failures = 0;
        let typed = loop {
            match editor.read_line(&line) {
                Ok(Signal::Success(text)) => {
                    break EditorInput::Text(prompt::join_continued_lines(&text));
                }
                // The text that was there is gone; there is nothing else to stop.
                Ok(Signal::CtrlC) if had_text.swap(false, Ordering::Relaxed) => {}
                Ok(Signal::CtrlC) => break EditorInput::Interrupt,
                Ok(Signal::CtrlD | Signal::ExternalBreak(_)) => break EditorInput::End,
                Ok(_) => {}
                // A terminal far away, or a busy one, may have been too slow to say where its cursor is.
                Err(_) if failures < MAX_FAILURES => failures += 1,
                Err(error) => break EditorInput::Failed(error.to_string()),
            }
        };
        // Kept at once: a process that is killed has forgotten nothing.
        let _ = editor.sync_history();
        if input_sender.blocking_send(typed).is_err() {
            return;
        }
    }
}

fn build_editor(
    history: Option<FileBackedHistory>,
    vocabulary: Arc<CompletionWords>,
    printer: ExternalPrinter<String>,
    stop: Arc<AtomicBool>,
    paint: ColourMode,
) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline.clone());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline);
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]),
    );
    keys.add_binding(
        KeyModifiers::SHIFT,
        KeyCode::BackTab,
        ReedlineEvent::MenuPrevious,
    );
    let menu = ColumnarMenu::default().with_name(MENU).with_marker("> ");
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(completion::WordCompleter::new(vocabulary)))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_validator(Box::new(ContinuationValidator))
        .with_ansi_colors(paint == ColourMode::Coloured)
        .with_external_printer(printer)
        .with_break_signal(stop)
        // What begins with a space is not remembered.
        .with_history_exclusion_prefix(Some(" ".into()))
        .use_bracketed_paste(true);
    if paint == ColourMode::Coloured {
        let style = Color::DarkGray.normal();
        editor = editor.with_hinter(Box::new(DefaultHinter::default().with_style(style)));
    }
    match history {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// The remembered entries. Where they cannot be kept, they are remembered for this run.
fn open_history(path: &Path) -> Option<FileBackedHistory> {
    if let Err(error) = open_private_append(path) {
        tracing::warn!(path = %path.display(), %error, "failed to open the input history");
        return None;
    }
    FileBackedHistory::with_file(HISTORY_ENTRIES, path.to_owned()).ok()
}
