//! Redacts log lines of all crates: credentials do not reach a file or a screen.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use hermes_config::Redactor;

/// Takes one whole line at a time and passes it on without credentials.
pub(super) struct RedactingWriter<W> {
    inner: W,
    redactor: Redactor,
}

impl<W> RedactingWriter<W> {
    pub(super) fn new(inner: W, redactor: Redactor) -> Self {
        Self { inner, redactor }
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match str::from_utf8(line).map(|text| self.redactor.redact(text)) {
            Ok(Cow::Owned(redacted)) => self.inner.write_all(redacted.as_bytes())?,
            _ => self.inner.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Secret;

    use super::*;

    #[test]
    fn lines_of_any_library_lose_their_credentials_and_nothing_else() {
        let redactor = Redactor::new([Secret::new("own-secret".to_owned())]);
        let mut log = RedactingWriter::new(Vec::new(), redactor);
        log.write_all(b"INFO rmcp: header Bearer abc.def123\n")
            .unwrap();
        log.write_all("WARN x: own-secret, größer\n".as_bytes())
            .unwrap();
        log.write_all(b"INFO plain\n").unwrap();
        assert_eq!(
            String::from_utf8(log.inner).unwrap(),
            "INFO rmcp: header [REDACTED]\nWARN x: [REDACTED], größer\nINFO plain\n"
        );
    }
}
