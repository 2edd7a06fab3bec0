//! A table, once all its rows are there: columns aligned, and cells broken where the terminal is too narrow.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::inline;
use crate::commands::chat::rendering::style::{ColourMode, Style};

type StyledCell = Vec<(char, Style)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Left,
    Centre,
    Right,
}

/// No column becomes narrower than this to make room for others.
const MIN_COLUMN_WIDTH: usize = 6;
const COLUMN_SEPARATOR: &str = " │ ";

/// Renders the lines of a table. `None` if they are none: the second line must be the one of dashes.
pub(super) fn render_table(lines: &[String], width: usize) -> Option<String> {
    let alignment: Vec<Alignment> = split_cells(lines.get(1)?)
        .iter()
        .map(|cell| parse_alignment(cell))
        .collect::<Option<_>>()?;
    let columns = alignment.len();
    let head = lines.first().into_iter();
    let rows: Vec<Vec<StyledCell>> = head
        .map(|line| parse_row(line, columns, Style::bold()))
        .chain(
            lines
                .iter()
                .skip(2)
                .map(|line| parse_row(line, columns, Style::PLAIN)),
        )
        .collect();
    let widths = column_widths(&rows, columns, width);
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        render_row(row, &widths, &alignment, &mut out);
        if index == 0 {
            let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push_str(&ColourMode::Coloured.paint(Style::faint(), &dashes.join("─┼─")));
            out.push('\n');
        }
    }
    Some(out)
}

/// Splits a row at bars that are neither escaped nor in code.
fn split_cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut is_escaped, mut is_code) = (false, false);
    for character in line.chars() {
        if character == '`' && !is_escaped {
            is_code = !is_code;
        }
        if let Some(cell) = cells.last_mut() {
            match character {
                '|' if is_escaped => {
                    cell.pop();
                    cell.push('|');
                }
                '|' if !is_code => cells.push(String::new()),
                _ => cell.push(character),
            }
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    // What follows the last bar is not a cell.
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn parse_alignment(cell: &str) -> Option<Alignment> {
    let dashes = cell.trim_start_matches(':').trim_end_matches(':');
    if dashes.is_empty() || dashes.chars().any(|character| character != '-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Alignment::Centre,
        (false, true) => Alignment::Right,
        _ => Alignment::Left,
    })
}

fn parse_row(line: &str, columns: usize, style: Style) -> Vec<StyledCell> {
    let mut row: Vec<StyledCell> = split_cells(line)
        .iter()
        .map(|cell| inline::render_inline(cell, style))
        .collect();
    row.resize(columns, Vec::new());
    row
}

/// As wide as the content; if that is too much, the widest columns give way.
fn column_widths(rows: &[Vec<StyledCell>], columns: usize, available: usize) -> Vec<usize> {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell_width(cell)).max().unwrap_or(0).max(1)
    };
    let mut widths: Vec<usize> = (0..columns).map(widest).collect();
    let separators = COLUMN_SEPARATOR.width() * columns.saturating_sub(1);
    let room = available.saturating_sub(separators);
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= MIN_COLUMN_WIDTH {
            break;
        }
        *widest -= 1;
    }
    widths
}

fn cell_width(cell: &[(char, Style)]) -> usize {
    cell.iter().map(|(c, _)| c.width().unwrap_or(0)).sum()
}

fn render_row(row: &[StyledCell], widths: &[usize], alignment: &[Alignment], out: &mut String) {
    let broken: Vec<Vec<StyledCell>> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| break_cell(cell, *width))
        .collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(1);
    for line in 0..height {
        let last = widths.len().saturating_sub(1);
        for (column, width) in widths.iter().enumerate() {
            let empty = StyledCell::new();
            let cell = broken[column].get(line).unwrap_or(&empty);
            let free = width.saturating_sub(cell_width(cell));
            let before = match alignment[column] {
                Alignment::Left => 0,
                Alignment::Centre => free / 2,
                Alignment::Right => free,
            };
            out.extend(std::iter::repeat_n(' ', before));
            write_cell(cell, out);
            if column < last {
                out.extend(std::iter::repeat_n(' ', free - before));
                out.push_str(&ColourMode::Coloured.paint(Style::faint(), COLUMN_SEPARATOR));
            }
        }
        out.push('\n');
    }
}

fn write_cell(cell: &[(char, Style)], out: &mut String) {
    let mut current = Style::PLAIN;
    for (character, style) in cell {
        if *style != current {
            style.write_sequence(out);
            current = *style;
        }
        out.push(*character);
    }
    if current != Style::PLAIN {
        Style::PLAIN.write_sequence(out);
    }
}

/// Breaks between words where that is possible.
fn break_cell(cell: &StyledCell, width: usize) -> Vec<StyledCell> {
    let mut lines = vec![StyledCell::new()];
    for word in cell.split_inclusive(|(character, _)| *character == ' ') {
        let trimmed = word
            .strip_suffix(&[(' ', Style::PLAIN)][..])
            .unwrap_or(word);
        let line = lines.last().map_or(0, |line| cell_width(line));
        if line > 0 && line + cell_width(trimmed) > width {
            lines.push(StyledCell::new());
        }
        for (character, style) in word {
            let needed = character.width().unwrap_or(0);
            let line = lines.last().map_or(0, |line| cell_width(line));
            if line + needed > width {
                if *character == ' ' {
                    continue;
                }
                lines.push(StyledCell::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push((*character, *style));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> Option<String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let out = render_table(&lines, width)?;
        let out = crate::output::printable(&out);
        let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
        Some(lines.join("\n"))
    }

    #[test]
    fn columns_are_aligned() {
        let table = "| name | n |\n|:--|--:|\n| `a|b` | 1 |\n| **long** one | 200 |\n| short |";
        assert_eq!(
            shown(table, 80).unwrap(),
            "name     │   n\n─────────┼────\na|b      │   1\nlong one │ 200\nshort    │"
        );
    }

    #[test]
    fn a_wide_table_breaks_its_cells() {
        let table = "| a | b |\n|---|---|\n| x | the quick brown fox jumps |";
        assert_eq!(
            shown(table, 20).unwrap(),
            "a │ b\n──┼─────────────────\nx │ the quick brown\n  │ fox jumps"
        );
    }

    #[test]
    fn without_dashes_it_is_not_a_table() {
        assert!(shown("| a |\n| b |", 80).is_none());
        assert!(shown("| a |", 80).is_none());
    }
}
