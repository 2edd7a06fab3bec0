//! Columns of text, aligned by what is seen and not by bytes. On a terminal they fit its width, and no word is broken
//! that fits a column.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Output, Tone, printable};

/// Rows under a header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

/// The widest a cell is shown; longer texts are cut with an ellipsis.
const MAX_CELL_WIDTH: usize = 72;
/// Between two columns.
const GAP: usize = 2;
/// No column that has more to show is made narrower than this.
const MIN_COLUMN_WIDTH: usize = 12;

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [(String, Tone); N]) {
        self.cells(cells.into());
    }

    /// A row with as many cells as the header has.
    pub(crate) fn cells(&mut self, cells: Vec<(String, Tone)>) {
        let cells = cells.into_iter();
        self.rows
            .push(cells.map(|(text, tone)| (one_line(&text), tone)).collect());
    }

    pub(crate) fn render(&self, output: Output) -> String {
        let widths = self.widths(output.columns());
        let header: Vec<(String, Tone)> = self
            .header
            .iter()
            .map(|title| ((*title).to_owned(), Tone::Faint))
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let cells: Vec<(Vec<String>, Tone)> = std::iter::zip(row, &widths)
                .map(|((cell, tone), width)| (wrap(cell, *width), *tone))
                .collect();
            let height = cells
                .iter()
                .map(|(lines, _)| lines.len())
                .max()
                .unwrap_or(1);
            for index in 0..height {
                let mut line = String::new();
                let mut gap = 0;
                for ((lines, tone), width) in std::iter::zip(&cells, &widths) {
                    let cell = lines.get(index).map_or("", String::as_str);
                    if !cell.is_empty() {
                        line.extend(std::iter::repeat_n(' ', gap));
                        line.push_str(&output.tint(*tone, cell));
                        gap = 0;
                    }
                    gap += width.saturating_sub(cell.width()) + GAP;
                }
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// How wide each column is, all together not wider than `columns` if that can be had without breaking words.
    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |column: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(column));
            cells
                .map(|(text, _)| text.as_str())
                .chain([self.header[column]])
        };
        let all = 0..self.header.len();
        let widest = |column| cells(column).map(UnicodeWidthStr::width).max();
        let mut widths: Vec<usize> = all.clone().map(|c| widest(c).unwrap_or(0)).collect();
        let Some(columns) = columns else {
            return widths;
        };
        let longest_word = |column: usize| {
            let words = cells(column).flat_map(str::split_whitespace);
            words.map(UnicodeWidthStr::width).max().unwrap_or(0)
        };
        // A word longer than half of the line is cut rather than to leave the others no room.
        let narrowest: Vec<usize> = all
            .clone()
            .map(|column| {
                let least = longest_word(column).min(columns / 2).max(MIN_COLUMN_WIDTH);
                least.min(widths[column])
            })
            .collect();
        let gaps = GAP * self.header.len().saturating_sub(1);
        // The widest column that can give way does, until they fit.
        while widths.iter().sum::<usize>() + gaps > columns {
            let wide = all
                .clone()
                .filter(|column| widths[*column] > narrowest[*column]);
            match wide.max_by_key(|column| widths[*column]) {
                Some(column) => widths[column] -= 1,
                None => break,
            }
        }
        widths
    }
}

/// The text in lines no wider than this, broken between words; a word that is longer is cut.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(truncate(word, width)),
        }
    }
    lines
}

/// The first line, without what could steer the terminal.
fn one_line(text: &str) -> String {
    let text = printable(text);
    let line = text.lines().next().unwrap_or_default().replace('\t', " ");
    truncate(&line, MAX_CELL_WIDTH)
}

/// The text, or its beginning with an ellipsis.
fn truncate(text: &str, widest: usize) -> String {
    if text.width() <= widest {
        return text.to_owned();
    }
    let mut width = 0;
    let mut cut: String = text
        .chars()
        .take_while(|character| {
            width += character.width().unwrap_or_default();
            width < widest
        })
        .collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "TARGET", "NOTE"]);
        table.row([
            ("files".into(), Tone::Plain),
            (
                "npx -y @modelcontextprotocol/server-filesystem /tmp".into(),
                Tone::Plain,
            ),
            (
                "its program was not found, install it and try again".into(),
                Tone::Plain,
            ),
        ]);
        table
    }

    #[test]
    fn words_stay_whole_and_lines_fit() {
        let table = table();
        for columns in [60, 80, 100, 120] {
            let widths = table.widths(Some(columns));
            assert!(
                widths.iter().sum::<usize>() + 2 * GAP <= columns,
                "{columns}: {widths:?}"
            );
            let notes = wrap(&table.rows[0][2].0, widths[2]);
            assert_eq!(notes.join(" "), table.rows[0][2].0, "{columns}");
        }
        assert_eq!(
            wrap(&table.rows[0][1].0, 43)[1],
            "@modelcontextprotocol/server-filesystem"
        );
    }

    #[test]
    fn a_file_gets_one_line_for_each_row() {
        assert_eq!(table().widths(None), [5, 51, 51]);
        assert_eq!(wrap("a-word-that-fits-nowhere x", 10), ["a-word-th…", "x"]);
    }
}
