//! A server's state in words: the note beside it, and spans of time.

use std::time::{SystemTime, UNIX_EPOCH};

use hermes_mcp::ServerStatus;

/// What a person should know besides the state itself: the next attempt, the last error, or a warning.
pub(super) fn status_note(status: &ServerStatus, now: u64) -> String {
    let error = status.error.as_deref().and_then(error_line);
    let next = status
        .next_attempt_at
        .map(|at| format!("next attempt in {} s", at.saturating_sub(now)));
    match (next, error) {
        (Some(next), Some(error)) => format!("{next}; {error}"),
        (Some(text), None) => text,
        (None, Some(error)) => error,
        (None, None) => match status.warnings.as_slice() {
            [] => String::new(),
            [only] => format!("warning: {only}"),
            [first, rest @ ..] => format!("warning: {first} (and {} more)", rest.len()),
        },
    }
}

/// The first line of an error, and the last of the stderr lines at its end.
fn error_line(error: &str) -> Option<String> {
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let last = lines.next_back().filter(|_| first.ends_with(':'));
    Some(match last {
        Some(last) => format!("{first} {last}"),
        None => first.to_owned(),
    })
}

/// What a server had models say for it, if it ever asked.
pub(super) fn sampling_summary(status: &ServerStatus) -> Option<String> {
    let counts = status.sampling?;
    let number =
        |number: u64, thing| pluralize(usize::try_from(number).unwrap_or(usize::MAX), thing);
    (counts.requests > 0 || counts.errors > 0).then(|| {
        format!(
            "{} answered, {} refused or failed, {}, {}",
            counts.requests,
            counts.errors,
            number(counts.tokens_used, "token"),
            number(counts.tool_use_count, "tool use"),
        )
    })
}

/// The servers that had models say something, a line each.
pub(super) fn sampling_lines(servers: &[ServerStatus]) -> Vec<String> {
    let lines = servers.iter().filter_map(|server| {
        let counts = sampling_summary(server)?;
        Some(format!("sampling of {}: {counts}", server.name))
    });
    lines.collect()
}

/// Whole seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// `12 s`, `5 min`, `3 h`, `2 d`.
pub(super) fn format_span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `1 tool`, `2 tools`.
pub(super) fn pluralize(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;
    use hermes_mcp::{LinkStatus, connection::counters::SamplingCounts};

    use super::*;

    fn reconnecting() -> ServerStatus {
        ServerStatus {
            error: Some("\nit ended (exit code 1); its last stderr lines:\nTraceback\nboom".into()),
            next_attempt_at: Some(103),
            ..ServerStatus::unconnected(&ServerName::new("a"), "stdio", LinkStatus::Reconnecting)
        }
    }

    #[test]
    fn a_note_says_when_it_is_tried_again_and_why_with_the_very_last_words() {
        assert_eq!(
            status_note(&reconnecting(), 100),
            "next attempt in 3 s; it ended (exit code 1); its last stderr lines: boom"
        );
    }

    #[test]
    fn an_attempt_that_is_due_is_not_in_the_past() {
        assert!(status_note(&reconnecting(), 200).starts_with("next attempt in 0 s"));
    }

    #[test]
    fn warnings_are_noted_where_nothing_is_wrong() {
        let mut status = reconnecting();
        (status.error, status.next_attempt_at) = (None, None);
        assert_eq!(status_note(&status, 0), "");
        status.warnings = vec!["odd".into(), "odder".into(), "oddest".into()];
        assert_eq!(status_note(&status, 0), "warning: odd (and 2 more)");
    }

    #[test]
    fn sampling_is_told_of_servers_that_asked() {
        let mut status = reconnecting();
        assert_eq!(sampling_summary(&status), None);
        status.sampling = Some(SamplingCounts::default());
        assert_eq!(sampling_summary(&status), None, "it never asked");
        status.sampling = Some(SamplingCounts {
            requests: 3,
            errors: 1,
            tokens_used: 1200,
            tool_use_count: 1,
        });
        assert_eq!(
            sampling_lines(&[status]),
            ["sampling of a: 3 answered, 1 refused or failed, 1200 tokens, 1 tool use"]
        );
    }

    #[test]
    fn spans_are_short() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (7199, "1 h"),
            (200_000, "2 d"),
        ] {
            assert_eq!(format_span(seconds), text);
        }
    }
}
