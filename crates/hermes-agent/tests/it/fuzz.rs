//! Random command lines for `HERMES_FUZZ_SECONDS` (default 2): the shell parser never
//! panics, never takes long, and finds every plain command.
//!
//! The input is the same each time; `scripts/fuzz` gives each run another `HERMES_FUZZ_SEED`. Each test prints its seed,
//! which repeats it.

use std::time::{Duration, Instant};

use hermes_agent::approval::{
    CommandContext, OtherDirectories, ProtectedPaths, Verdict, WrittenFiles, classify,
};

/// Pieces that mean something to a shell.
const PIECES: [&str; 72] = [
    " ",
    "  ",
    "\t",
    "\n",
    "\\\n",
    ";",
    ";;",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "<",
    ">",
    ">>",
    "<<",
    "<<-",
    "<<<",
    "<(",
    ">(",
    "&>",
    "2>&1",
    "'",
    "\"",
    "`",
    "$",
    "$(",
    "${",
    "$((",
    "$'",
    "\\",
    "\\x41",
    "#",
    "!",
    "*",
    "?",
    "[",
    "]",
    "~",
    "=",
    "EOF",
    "'EOF'",
    "if",
    "then",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "case",
    "esac",
    "function",
    "eval",
    "sh -c",
    "xargs",
    "find . -exec",
    "sudo",
    "env -S",
    "python3 -c",
    "awk",
    "curl x",
    "rm -r",
    "IFS",
    "x=y",
    "ä\u{202e}",
    "\0",
];

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    fn line(&mut self) -> String {
        let pieces = self.below(60);
        let mut line = String::new();
        for _ in 0..pieces {
            match self.below(5) {
                0 => line.push(char::from(u8::try_from(self.below(95) + 32).unwrap())),
                _ => line.push_str(PIECES[self.below(PIECES.len())]),
            }
        }
        line
    }

    /// A word as a shell may be told it, in one of many ways.
    fn spelled(&mut self, word: &str) -> String {
        let mut spelled = String::new();
        for character in word.chars() {
            let piece = match self.below(6) {
                0 => format!("'{character}'"),
                1 => format!("\"{character}\""),
                2 => format!("\\{character}"),
                3 => format!("$'\\x{:02x}'", u32::from(character)),
                4 => format!("''{character}"),
                _ => character.to_string(),
            };
            spelled.push_str(&piece);
        }
        spelled
    }
}

/// The seed, if no other one is given.
const USUAL_SEED: u64 = 1_794_708_062_467;

struct FuzzRun {
    chance: Random,
    end: Instant,
    rounds: u64,
}

impl FuzzRun {
    fn start(what: &str) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed = number("HERMES_FUZZ_SEED").unwrap_or(USUAL_SEED);
        println!("{what}: HERMES_FUZZ_SEED={seed}");
        let seconds = number("HERMES_FUZZ_SECONDS").unwrap_or(2);
        Self {
            chance: Random(seed),
            end: Instant::now() + Duration::from_secs(seconds),
            rounds: 0,
        }
    }

    fn should_continue(&mut self) -> bool {
        self.rounds += 1;
        Instant::now() < self.end
    }
}

impl Drop for FuzzRun {
    fn drop(&mut self) {
        println!("{} rounds", self.rounds);
    }
}

fn command_context() -> CommandContext {
    CommandContext {
        directory: "/home/ann/project".into(),
        protected_paths: ProtectedPaths {
            hermes_home: Some("/home/ann/.hermes".into()),
            user_home: Some("/home/ann".into()),
            ..ProtectedPaths::default()
        },
        written_files: WrittenFiles::default(),
        other_directories: OtherDirectories::default(),
    }
}

#[test]
fn no_line_makes_the_reader_panic_or_wait() {
    let mut fuzzing = FuzzRun::start("commands");
    while fuzzing.should_continue() {
        let line = fuzzing.chance.line();
        let began = Instant::now();
        let _ = classify(&line, &command_context());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?} for {line:?}");
    }
}

#[test]
fn nothing_behind_a_line_hides_it() {
    let mut fuzzing = FuzzRun::start("lines behind");
    while fuzzing.should_continue() {
        let line = format!("rm -rf /\n{}", fuzzing.chance.line());
        assert_ne!(
            classify(&line, &command_context()),
            Verdict::Allow,
            "{line:?}"
        );
    }
}

/// Ways into the directory of a secret, as commands of their own.
const CHANGES: [&str; 10] = [
    "cd ~/.hermes",
    "cd -P ~/.hermes",
    "cd -- ~/.hermes",
    "command cd ~/.hermes",
    "builtin cd -L /home/ann/.hermes",
    "pushd ~/.hermes",
    "eval cd ~/.hermes",
    "cd; cd .hermes",
    "cd ~/.h*",
    "cd \"$X\"",
];
/// What may follow them without leading out for certain.
const DETOURS: [&str; 7] = [
    "",
    "ls; ",
    "(cd /tmp); ",
    "cd /tmp | true; ",
    "false || cd /tmp; ",
    "cd src; cd -; ",
    "if true; then ",
];
const WRAPPERS: [&str; 9] = [
    "",
    "sudo ",
    "sudo -nu ann ",
    "nice -n 3 ",
    "env A=b ",
    "timeout 3 ",
    "command ",
    "exec ",
    "busybox ",
];
/// Ways into it for one command.
const DIRECTORY_WRAPPERS: [&str; 5] = [
    "env -C ~/.hermes ",
    "env -iC ~/.hermes ",
    "env --chdir=/home/ann/.hermes ",
    "sudo -D ~/.hermes ",
    "sudo -nD ~/.hermes nice ",
];

#[test]
fn no_way_to_a_secret_and_no_spelling_of_it_hides_it() {
    let mut fuzzing = FuzzRun::start("secrets");
    while fuzzing.should_continue() {
        let chance = &mut fuzzing.chance;
        let (cat, env) = (chance.spelled("cat"), chance.spelled(".env"));
        let line = if chance.below(3) == 0 {
            format!("{}{cat} {env}", chance.pick(&DIRECTORY_WRAPPERS))
        } else {
            let separator = chance.pick(&["; ", " && ", "\n", " || "]);
            let (directory_change, detour) = (chance.pick(&CHANGES), chance.pick(&DETOURS));
            let wrapper = chance.pick(&WRAPPERS);
            format!("{directory_change}{separator}{detour}{wrapper}{cat} {env}")
        };
        assert_ne!(
            classify(&line, &command_context()),
            Verdict::Allow,
            "{line}"
        );
    }
}

#[test]
fn no_spelling_of_a_program_hides_it() {
    let mut fuzzing = FuzzRun::start("spellings");
    while fuzzing.should_continue() {
        let chance = &mut fuzzing.chance;
        let (rm, flag) = (chance.spelled("rm"), chance.spelled("-rf"));
        let before = [
            "",
            "true; ",
            "false || ",
            "sudo ",
            "echo $(",
            "if true; then ",
        ][chance.below(6)];
        let line = format!("{before}{rm} {flag} /");
        assert_ne!(
            classify(&line, &command_context()),
            Verdict::Allow,
            "{line}"
        );
    }
}
