//! How an agent exited that nobody stopped.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    Exit(i32),
    Signal(i32),
    MemoryLimit,
    Unknown,
}

impl DeathCause {
    /// The code in conditions and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            Self::MemoryLimit => "memory_limit",
            Self::Unknown => "unknown",
        }
    }

    /// The code with its number, for the audit log.
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

/// The unexpected exit of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    pub cause: DeathCause,
    /// Further details, such as its last output, without secrets; may be empty.
    pub details: String,
}

impl Death {
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
