//! One picture of the live table: the lines that fit a terminal of a given size.

use hermes_mcp::ServerStatus;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::super::{gateway::accounts::AccountLine, mcp::tone, state};
use crate::output::{Output, Tone};

/// Narrower than this, the columns that matter least are left out.
const WIDE_COLUMNS: usize = 72;
/// Title, header and summary.
const FIXED_LINES: usize = 3;
const GAP: usize = 2;

/// What is to be seen.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) rows: Vec<ServerRow>,
    pub(super) summary: String,
}

/// One server.
#[derive(Debug)]
pub(super) struct ServerRow {
    cells: [String; COLUMNS.len()],
    tone: Tone,
}

/// One line, with the space it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrameLine {
    pub(super) text: String,
    pub(super) width: usize,
}

/// How many characters a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnRule {
    Always,
    IfWide,
}

const COLUMNS: [(&str, ColumnRule); 6] = [
    ("NAME", ColumnRule::Always),
    ("TRANSPORT", ColumnRule::IfWide),
    ("STATUS", ColumnRule::Always),
    ("TOOLS", ColumnRule::Always),
    ("ERA", ColumnRule::IfWide),
    ("NOTE", ColumnRule::Always),
];
const STATUS: usize = 2;
const TOOLS: usize = 3;

impl ServerRow {
    /// A server without anything to note shows the names of its tools instead.
    pub(super) fn new(server: &ServerStatus, tools: &[&str], now: u64) -> Self {
        let mut note = state::status_note(server, now);
        if note.is_empty() {
            note = tools.join(", ");
        }
        Self {
            cells: [
                server.name.clone(),
                server.transport.clone(),
                server.status.to_string(),
                server.tools.to_string(),
                server.era.map_or("", |era| era.as_str()).to_owned(),
                note,
            ]
            .map(|text| text.replace(char::is_control, " ")),
            tone: tone(Some(server.status)),
        }
    }
}

impl ServerRow {
    /// A bot account of a messaging platform.
    pub(super) fn for_account(account: &AccountLine, now: u64) -> Self {
        let heard = account.last_heard(now);
        let note = match (&account.problem, heard.as_str()) {
            (Some(problem), _) => problem.clone(),
            (None, "") => String::new(),
            (None, heard) => format!("last heard {heard}"),
        };
        Self {
            cells: [
                account.label.clone(),
                "platform".into(),
                account.state.replace('_', " "),
                String::new(),
                String::new(),
                note,
            ]
            .map(|text| text.replace(char::is_control, " ")),
            tone: account.tone(),
        }
    }
}

impl Frame {
    /// The lines to draw: none is wider than the terminal, and together they leave its last line free.
    pub(super) fn lines(&self, output: Output, size: TerminalSize) -> Vec<FrameLine> {
        // A text that fills the last column makes some terminals wrap.
        let width = size.columns.saturating_sub(1).max(1);
        let room = size.lines.saturating_sub(1 + FIXED_LINES);
        let shown = if self.rows.len() <= room {
            self.rows.len()
        } else {
            room.saturating_sub(1)
        };
        let kept: Vec<usize> = (0..COLUMNS.len())
            .filter(|column| {
                size.columns >= WIDE_COLUMNS || COLUMNS[*column].1 == ColumnRule::Always
            })
            .collect();
        let widths: Vec<usize> = kept.iter().map(|column| self.width(*column)).collect();

        let mut lines = vec![plain_line(output, &self.title, Tone::Strong, width)];
        if size.lines > FIXED_LINES + 1 {
            let header = kept.iter().map(|column| (COLUMNS[*column].0, Tone::Faint));
            lines.push(aligned_line(output, header, &kept, &widths, width));
        }
        for row in &self.rows[..shown] {
            let cells = kept.iter().map(|column| {
                let tone = match *column {
                    STATUS => row.tone,
                    0 => Tone::Strong,
                    _ => Tone::Plain,
                };
                (row.cells[*column].as_str(), tone)
            });
            lines.push(aligned_line(output, cells, &kept, &widths, width));
        }
        if shown < self.rows.len() && room > 0 {
            let text = format!(
                "… and {} more: `hermes mcp status`",
                self.rows.len() - shown
            );
            lines.push(plain_line(output, &text, Tone::Faint, width));
        }
        lines.push(plain_line(output, &self.summary, Tone::Faint, width));
        lines.truncate(size.lines.saturating_sub(1).max(1));
        lines
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row.cells[column].width());
        cells.chain([COLUMNS[column].0.len()]).max().unwrap_or(0)
    }
}

fn plain_line(output: Output, text: &str, tone: Tone, width: usize) -> FrameLine {
    let text = truncate(text, width);
    FrameLine {
        width: text.width(),
        text: output.tint(tone, &text),
    }
}

fn aligned_line<'a>(
    output: Output,
    cells: impl Iterator<Item = (&'a str, Tone)>,
    columns: &[usize],
    widths: &[usize],
    width: usize,
) -> FrameLine {
    let mut line = FrameLine {
        text: String::new(),
        width: 0,
    };
    let mut column_begins = 0;
    for (index, (cell, tone)) in cells.enumerate() {
        let padding = widths[index].saturating_sub(cell.width());
        let before = if columns[index] == TOOLS { padding } else { 0 };
        let begins = column_begins + before;
        column_begins += widths[index] + GAP;
        if begins >= width || cell.is_empty() {
            continue;
        }
        let cell = truncate(cell, width - begins);
        line.text
            .extend(std::iter::repeat_n(' ', begins - line.width));
        line.text.push_str(&output.tint(tone, &cell));
        line.width = begins + cell.width();
    }
    line
}

/// A text of at most this width; what is cut ends in an ellipsis.
fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        let next = character.width().unwrap_or(0);
        if used + next > width.saturating_sub(1) {
            break;
        }
        used += next;
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;
    use hermes_mcp::LinkStatus;

    use super::*;

    fn frame(names: &[&str]) -> Frame {
        let rows = names.iter().map(|name| {
            let status = ServerStatus {
                tools: 2,
                ..ServerStatus::unconnected(&ServerName::new(*name), "stdio", LinkStatus::Ready)
            };
            ServerRow::new(&status, &["first_tool", "second_tool"], 0)
        });
        Frame {
            title: "title".into(),
            rows: rows.collect(),
            summary: "summary".into(),
        }
    }

    fn texts(frame: &Frame, columns: usize, lines: usize) -> Vec<String> {
        let size = TerminalSize { columns, lines };
        let lines = frame.lines(Output::new(true), size);
        for line in &lines {
            assert_eq!(line.text.width(), line.width, "{line:?}");
        }
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        assert_eq!(
            texts(&frame(&["a", "longer"]), 100, 24),
            [
                "title",
                "NAME    TRANSPORT  STATUS  TOOLS  ERA  NOTE",
                "a       stdio      ready       2       first_tool, second_tool",
                "longer  stdio      ready       2       first_tool, second_tool",
                "summary",
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_gets_the_columns_that_matter() {
        let lines = texts(&frame(&["a"]), 40, 24);
        assert_eq!(lines[1], "NAME  STATUS  TOOLS  NOTE");
        assert_eq!(lines[2], "a     ready       2  first_tool, secon…");
    }

    #[test]
    fn no_line_is_as_wide_as_the_terminal_however_narrow_it_is() {
        let frame = frame(&["数据库服务器", "a very long name of a server"]);
        for columns in 1..90 {
            for line in texts(&frame, columns, 24) {
                assert!(line.width() < columns.max(2), "{columns}: {line}");
            }
        }
    }

    #[test]
    fn a_low_terminal_says_how_many_are_not_shown() {
        let names: Vec<String> = (0..9).map(|number| format!("s{number}")).collect();
        let frame = frame(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = texts(&frame, 100, 8);
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[5], "… and 6 more: `hermes mcp status`");
        for height in 1..20 {
            assert!(texts(&frame, 100, height).len() < height.max(2), "{height}");
        }
    }

    #[test]
    fn text_from_servers_cannot_move_the_cursor() {
        let status = ServerStatus {
            error: Some("\u{1b}[2Jgone".into()),
            ..ServerStatus::unconnected(&ServerName::new("a\nb"), "stdio", LinkStatus::Parked)
        };
        let row = ServerRow::new(&status, &[], 0);
        assert!(
            row.cells
                .iter()
                .all(|cell| !cell.contains(char::is_control))
        );
    }
}
