//! What ended an agent that nobody stopped.

use std::fmt;

/// What ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    /// It returned this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its processes took more memory than they may.
    MemoryLimit,
    /// Nobody knows.
    Unknown,
}

impl DeathCause {
    /// One word, for conditions and figures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            Self::MemoryLimit => "memory_limit",
            Self::Unknown => "unknown",
        }
    }

    /// The word with its number, for the audit log.
    pub fn label(self) -> String {
        match self {
            Self::Exit(number) | Self::Signal(number) => format!("{}:{number}", self.word()),
            Self::MemoryLimit | Self::Unknown => self.word().to_owned(),
        }
    }
}

impl fmt::Display for DeathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(9) => f.write_str("was killed (signal 9)"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::MemoryLimit => f.write_str("was ended by its memory limit"),
            Self::Unknown => f.write_str("ended for an unknown reason"),
        }
    }
}

/// The end of an agent that nobody stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// What ended it.
    pub cause: DeathCause,
    /// What else is known, such as its last words, without secrets; or nothing.
    pub details: String,
}

impl Death {
    /// An end of which nothing more is known.
    pub fn of(cause: DeathCause) -> Self {
        Self {
            cause,
            details: String::new(),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details)?;
        }
        Ok(())
    }
}
