//! A chat on a pseudo-terminal: types keys, and sees what a terminal would show.

use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use hermes_testkit::{
    Behaviour, TemporaryHome, Tool, binary,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use serde_json::{Value, json};

use crate::harness::{pty, test_home::TIMEOUT};

const ROWS: u16 = 60;
const COLUMNS: u16 = 100;

/// What the line editor asks a terminal: where the cursor is.
const CURSOR_QUERY: &[u8] = b"\x1b[6n";

/// A chat on a terminal of its own.
pub(crate) struct ChatTerminal {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<TerminalOutput>>,
    reader: JoinHandle<()>,
}

struct TerminalOutput {
    terminal: vt100::Parser,
    raw: Vec<u8>,
    /// How much of `raw` was searched for questions.
    searched: usize,
}

/// A home with a model that answers by script and servers that behave.
pub(crate) struct ChatHome {
    pub(crate) home: TemporaryHome,
    pub(crate) model: Option<ModelServer>,
}

impl ChatHome {
    /// Without a model, and without looking for one.
    pub(crate) fn without_model(servers: &[(&str, &Behaviour)]) -> Self {
        Self::new(None, servers, "")
    }

    pub(crate) fn with_model(script: ModelScript, servers: &[(&str, &Behaviour)]) -> Self {
        Self::new(Some(script), servers, "")
    }

    /// With a model that calls the destructive tool `wipe` of the server `kit` once for each text, and says `Done.`; and
    /// the record of what reaches that server. `approve` is its `tools.approve`.
    pub(crate) fn wiping(approve: &Value, texts: &[&str]) -> (Self, PathBuf) {
        let calls = texts
            .iter()
            .map(|text| ScriptedAnswer::call("mcp_kit_wipe", &json!({"text": text})));
        let place = Self::with_model(
            ModelScript::new(calls.chain([ScriptedAnswer::text("Done.")])),
            &[],
        );
        let record = place.home.path().join("record");
        let wipe = Tool::defined(json!({"name": "wipe", "annotations": {"destructiveHint": true}}));
        let behaviour = Behaviour::new()
            .tools([wipe.acting_as("echo")])
            .record(&record);
        let (command, args) = behaviour.stdio_command(&binary("testkit-stdio"));
        let entry = json!({"command": command, "args": args, "tools": {"approve": approve}});
        place.write_config(&[], &format!("mcp_servers: {}\n", json!({"kit": entry})));
        (place, record)
    }

    pub(crate) fn new(
        script: Option<ModelScript>,
        servers: &[(&str, &Behaviour)],
        more: &str,
    ) -> Self {
        let model = script.map(ModelServer::start);
        let place = Self {
            home: TemporaryHome::new(),
            model,
        };
        place.write_config(servers, more);
        place
    }

    /// Writes the configuration, with further lines at its end.
    pub(crate) fn write_config(&self, servers: &[(&str, &Behaviour)], more: &str) {
        let program = binary("testkit-stdio");
        let entries = servers.iter().map(|(name, behaviour)| {
            let (command, args) = behaviour.stdio_command(&program);
            format!("  {name}: {}\n", json!({"command": command, "args": args}))
        });
        let mut text = match &self.model {
            Some(model) => format!(
                "model: {{default: test-model, base_url: \"{}\"}}\n",
                model.base_url()
            ),
            None => "model: {autodetect: false}\n".to_owned(),
        };
        text.push_str(
            "auxiliary: {title_generation: {base_url: \"http://127.0.0.1:9\", model: none}}\n",
        );
        if !servers.is_empty() {
            text.push_str("mcp_servers:\n");
            text.extend(entries);
        }
        text.push_str(more);
        self.home.write_config(&text);
    }

    /// Starts a chat and waits for its prompt.
    #[track_caller]
    pub(crate) fn start_chat(&self, arguments: &[&str]) -> ChatTerminal {
        let talk = self.start_chat_with(arguments, &[]);
        talk.prompt();
        talk
    }

    /// The same with its stderr thrown away.
    #[track_caller]
    pub(crate) fn start_chat_without_stderr(&self) -> ChatTerminal {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec \"$0\" chat 2>/dev/null",
            env!("CARGO_BIN_EXE_hermes"),
        ]);
        command
            .current_dir(self.home.path())
            .env("HERMES_HOME", self.home.path())
            .env("TERM", "xterm-256color");
        let talk = ChatTerminal::start(command);
        talk.prompt();
        talk
    }

    pub(crate) fn start_chat_with(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> ChatTerminal {
        ChatTerminal::start(self.command(arguments, variables))
    }

    /// The command of a chat.
    pub(crate) fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        command
            .arg("chat")
            .args(arguments)
            .current_dir(self.home.path())
            .env_remove("NO_COLOR")
            .env("HERMES_HOME", self.home.path())
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied());
        command
    }
}

impl ChatTerminal {
    fn start(command: Command) -> Self {
        let (child, keyboard) = pty::start(command, COLUMNS, ROWS);
        let terminal =
            vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 500);
        let seen = Arc::new(Mutex::new(TerminalOutput {
            terminal,
            raw: Vec::new(),
            searched: 0,
        }));
        let output = keyboard.try_clone().unwrap();
        let shown = seen.clone();
        let reader = std::thread::spawn(move || show(&output, &shown));
        Self {
            child,
            keyboard,
            seen,
            reader,
        }
    }

    /// Types.
    pub(crate) fn keys(&self, keys: &str) -> &Self {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Types a line, once there is a prompt for it.
    #[track_caller]
    pub(crate) fn line(&self, line: &str) -> &Self {
        self.prompt();
        // Seen before it is entered, so that nobody takes this prompt for the next one.
        let begin: String = line.chars().take(usize::from(COLUMNS) / 2).collect();
        let echo = format!("> {begin}");
        self.keys(line).wait_until("echo", |screen| {
            screen.lines().any(|line| line.starts_with(&echo))
        });
        self.keys("\r")
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> String {
        screen(&self.seen)
    }

    /// Every byte that was ever written.
    pub(crate) fn raw(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen.raw).into_owned()
    }

    /// Whether a character of a text is bold.
    pub(crate) fn is_bold(&self, text: &str) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let screen = seen.terminal.screen();
        let row = (0..ROWS).find_map(|row| {
            let line: String = screen.rows(0, COLUMNS).nth(row.into())?;
            Some((row, u16::try_from(line.find(text)?).unwrap()))
        });
        let (row, column) = row.unwrap();
        screen.cell(row, column).unwrap().bold()
    }

    /// Waits until the screen is as wanted, and returns it.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let found = hermes_testkit::wait_for(TIMEOUT, || {
            let screen = self.screen();
            holds(&screen).then_some(screen)
        });
        found.unwrap_or_else(|| panic!("no {what} in:\n{}", self.screen()))
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Waits until the only server is connected. One that was quick is not announced but part of the banner.
    #[track_caller]
    pub(crate) fn wait_until_ready(&self, server: &str) {
        let news = format!("ready: {server}");
        self.wait_until(&news, |screen| {
            screen.contains(&news) || screen.contains("servers  1 ready")
        });
    }

    /// Waits until a line can be typed.
    #[track_caller]
    pub(crate) fn prompt(&self) -> String {
        self.wait_until("prompt", |screen| {
            screen.lines().next_back().is_some_and(|line| line == ">")
        })
    }

    /// Waits for the end: the exit code and the last screen.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let seen = self.seen.clone();
        let code = pty::wait(&mut self.child, &self.reader, || screen(&seen));
        (code, self.screen())
    }
}

impl Drop for ChatTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a terminal shows, without empty lines at its end.
fn screen(seen: &Mutex<TerminalOutput>) -> String {
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let contents = seen.terminal.screen().contents();
    let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Shows what the program writes, and answers where the cursor is.
fn show(terminal: &File, shown: &Mutex<TerminalOutput>) {
    pty::read_output(terminal, |bytes| {
        let mut answers = Vec::new();
        {
            let mut seen = shown.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = &mut *seen;
            seen.raw.extend_from_slice(bytes);
            // Each question is answered as of the place where it stands.
            while let Some(found) = find(&seen.raw[seen.searched..], CURSOR_QUERY) {
                let end = seen.searched + found + CURSOR_QUERY.len();
                seen.terminal.process(&seen.raw[seen.searched..end]);
                seen.searched = end;
                let (row, column) = seen.terminal.screen().cursor_position();
                answers.push(format!("\x1b[{};{}R", row + 1, column + 1));
            }
            // The beginning of a question may end this piece.
            let keep = (1..CURSOR_QUERY.len())
                .rev()
                .find(|length| seen.raw.ends_with(&CURSOR_QUERY[..*length]))
                .unwrap_or(0);
            let end = seen.raw.len() - keep;
            if end > seen.searched {
                seen.terminal.process(&seen.raw[seen.searched..end]);
                seen.searched = end;
            }
        }
        for answer in answers {
            let _ = (&mut &*terminal).write_all(answer.as_bytes());
        }
    });
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}
