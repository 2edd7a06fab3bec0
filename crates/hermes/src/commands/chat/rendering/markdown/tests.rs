use super::*;

const COLUMNS: u16 = 40;

/// The terminal after a text came in pieces of this many characters.
fn terminal(text: &str, piece: usize) -> vt100::Parser {
    let mut terminal = vt100::Parser::new(30.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
    let mut markdown = Markdown::new(COLUMNS.into(), 30);
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::new();
    for piece in characters.chunks(piece) {
        markdown.push(&piece.iter().collect::<String>(), &mut out);
    }
    markdown.finish(&mut out);
    terminal.process(out.replace('\n', "\r\n").as_bytes());
    terminal
}

fn shown(text: &str) -> String {
    let whole = seen(text, usize::MAX);
    for piece in [1, 2, 3, 7] {
        assert_eq!(seen(text, piece), whole, "in pieces of {piece}");
    }
    whole
}

/// What is on the screen, without the spaces at which lines were broken.
fn seen(text: &str, piece: usize) -> String {
    let contents = terminal(text, piece).screen().contents();
    let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn a_text_looks_the_same_in_whatever_pieces_it_comes() {
    let text = "# Title\n\nSome **bold** and `code` and *more* text that is longer than a line.\n\n\
                - one\n- two, which is also longer than one line\n  1. nested\n\n> quoted\n> - list\n\n\
                ```rust\nfn main() {\n\n    // `a`\n}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\nend";
    insta::assert_snapshot!(shown(text), @r"
    Title

    Some bold and code and more text that
    is longer than a line.

    • one
    • two, which is also longer than one
      line
      1. nested

    │ quoted
    │ • list

    ```rust
    fn main() {

        // `a`
    }
    ```

    a │ b
    ──┼──
    1 │ 2

    ───────────────────────────────────────
    end
    ");
}

#[test]
fn the_first_characters_appear_at_once() {
    let mut markdown = Markdown::new(80, 24);
    let mut out = String::new();
    markdown.push("Hel", &mut out);
    assert_eq!(out, "Hel");
    markdown.push("lo **wor", &mut out);
    assert_eq!(out, "Hello \x1b[0;1mwor");
}

#[test]
fn styles_reach_the_terminal() {
    let terminal = terminal("# A\na **b** `c` [d](http://e)", 1);
    let screen = terminal.screen();
    let cell = |row, column| screen.cell(row, column).unwrap();
    assert!(cell(0, 0).bold() && cell(0, 0).underline());
    assert!(!cell(1, 0).bold());
    assert!(cell(1, 2).bold());
    assert_eq!(cell(1, 4).fgcolor(), vt100::Color::Idx(6));
    assert!(cell(1, 6).underline());
    assert_eq!(shown("[d](http://e)"), "d (http://e)");
}

#[test]
fn a_line_with_marks_that_were_none_is_mended_in_place() {
    assert_eq!(
        shown("before\nit's 5 **stars and a long line that breaks\nafter"),
        "before\nit's 5 **stars and a long line that\nbreaks\nafter"
    );
    assert_eq!(shown("- a `b\n- c"), "• a `b\n• c");
    let terminal = terminal("a **b and more", 1);
    assert!(!terminal.screen().cell(0, 4).unwrap().bold());
}

#[test]
fn code_is_neither_rendered_nor_broken() {
    let text = "```py\n# **not bold**\n| no | table |\n```\n**bold**";
    assert_eq!(
        shown(text),
        "```py\n# **not bold**\n| no | table |\n```\nbold"
    );
    let long = format!("```\n{}\n```", "word ".repeat(10));
    // The terminal broke it, and knows that it is one line.
    assert_eq!(shown(&long).lines().nth(1).unwrap().len(), 49);
}

#[test]
fn a_block_of_code_inside_of_a_list_ends_at_its_fence() {
    assert_eq!(
        shown("1. do\n   ```sh\n   ls\n   ```\n2. **then**"),
        "1. do\n   ```sh\n   ls\n   ```\n2. then"
    );
}

#[test]
fn a_table_waits_for_its_end_and_says_so() {
    let mut markdown = Markdown::new(80, 24);
    let mut out = String::new();
    markdown.push("| a | b |\n|--|--|\n| 1 |", &mut out);
    assert_eq!((out.as_str(), markdown.waiting_rows()), ("", Some(2)));
    markdown.push(" 2 |\nafter", &mut out);
    assert_eq!(markdown.waiting_rows(), None);
    assert!(out.contains('│') && out.ends_with("after"), "{out}");
}

#[test]
fn rows_without_a_head_stay_as_they_are() {
    assert_eq!(shown("| a | b\nc"), "| a | b\nc");
}

#[test]
fn what_is_left_open_is_closed_at_the_end() {
    for (text, end) in [
        ("**a", "**a"),
        ("-", "-"),
        ("```rs\nlet", "```rs\nlet"),
        ("1.", "1."),
        ("> ", "│"),
    ] {
        assert_eq!(shown(text), end, "{text:?}");
    }
    let mut markdown = Markdown::new(80, 24);
    let mut out = String::new();
    markdown.push("```\ncode", &mut out);
    markdown.finish(&mut out);
    out.clear();
    markdown.push("**a** b", &mut out);
    assert!(out.starts_with("\x1b[0;1ma"), "{out:?}");
}
