//! How an agent exited that nobody stopped.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    Exit(i32),
    Signal(i32),
    MemoryLimit,
    Unknown,
}

impl ExitCause {
    /// The code in conditions and metrics.
    pub fn as_str(self) -> &'static str {
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
            Self::Exit(number) | Self::Signal(number) => format!("{}:{number}", self.as_str()),
            Self::MemoryLimit | Self::Unknown => self.as_str().to_owned(),
        }
    }
}

impl fmt::Display for ExitCause {
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
pub struct AgentExit {
    pub cause: ExitCause,
    /// Further details, such as its last output, without secrets; may be empty.
    pub details: String,
}

impl AgentExit {
    pub fn from_cause(cause: ExitCause) -> Self {
        Self {
            cause,
            details: String::new(),
        }
    }
}

impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details)?;
        }
        Ok(())
    }
}
