//! Statements that destroy data.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestructiveStatement {
    /// `DROP TABLE` and the like.
    Drop,
    /// `TRUNCATE`.
    Truncate,
    /// `DELETE` of every row.
    DeleteAll,
}

/// What can be dropped.
const DROPPABLE_OBJECTS: [&str; 11] = [
    "TABLE",
    "DATABASE",
    "SCHEMA",
    "VIEW",
    "INDEX",
    "USER",
    "ROLE",
    "KEYSPACE",
    "TABLESPACE",
    "MATERIALIZED",
    "COLLECTION",
];

/// The destructive statements in SQL text.
pub(crate) fn find_destructive(text: &str) -> Vec<DestructiveStatement> {
    split_statements(text)
        .iter()
        .filter_map(|words| classify_statement(words))
        .collect()
}

fn classify_statement(words: &[String]) -> Option<DestructiveStatement> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["DROP", object, ..] if DROPPABLE_OBJECTS.contains(object) => {
            Some(DestructiveStatement::Drop)
        }
        ["TRUNCATE", _, ..] => Some(DestructiveStatement::Truncate),
        ["DELETE", "FROM", rest @ ..] if !rest.contains(&"WHERE") => {
            Some(DestructiveStatement::DeleteAll)
        }
        ["WITH" | "EXPLAIN", rest @ ..] => {
            let delete = rest.iter().position(|&word| word == "DELETE")?;
            classify_statement(
                &rest[delete..]
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        }
        _ => None,
    }
}

/// The words of each statement in capitals, without comments and quoted text.
fn split_statements(text: &str) -> Vec<Vec<String>> {
    let mut statements = vec![Vec::new()];
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    let finish = |word: &mut String, statements: &mut Vec<Vec<String>>| {
        if let Some(statement) = statements.last_mut().filter(|_| !word.is_empty()) {
            statement.push(std::mem::take(word));
        }
    };
    while let Some(character) = characters.next() {
        if character == '_' || character.is_alphanumeric() {
            word.extend(character.to_uppercase());
            continue;
        }
        finish(&mut word, &mut statements);
        match character {
            ';' => statements.push(Vec::new()),
            '\'' | '"' | '`' => {
                // A quoted name is still one word.
                while characters.next().is_some_and(|c| c != character) {}
                word.push('?');
                finish(&mut word, &mut statements);
            }
            '-' if characters.peek() == Some(&'-') => {
                while characters.next().is_some_and(|c| c != '\n') {}
            }
            '/' if characters.peek() == Some(&'*') => {
                let mut last = ' ';
                while let Some(c) = characters.next().filter(|&c| !(last == '*' && c == '/')) {
                    last = c;
                }
            }
            _ => {}
        }
    }
    finish(&mut word, &mut statements);
    statements
}

#[cfg(test)]
mod tests {
    use super::{DestructiveStatement::*, find_destructive};

    #[test]
    fn destructive_statements_are_found() {
        for (text, expected) in [
            ("drop table users", Drop),
            ("SELECT 1; DROP DATABASE x;", Drop),
            ("/* hi */ truncate t", Truncate),
            ("TRUNCATE TABLE \"t\"", Truncate),
            ("DELETE FROM users", DeleteAll),
            ("delete from \"where\"", DeleteAll),
            ("DELETE FROM users -- WHERE id = 1", DeleteAll),
            ("DELETE FROM a WHERE x; delete from b", DeleteAll),
            ("WITH x AS (SELECT 1) DELETE FROM y", DeleteAll),
        ] {
            assert_eq!(find_destructive(text), [expected], "{text}");
        }
    }

    #[test]
    fn other_statements_are_not() {
        for text in [
            "SELECT 'DROP TABLE x'",
            "DELETE FROM users\nWHERE id = 1",
            "select * from dropped",
            "ALTER TABLE x ADD y int",
            "truncate",
            "INSERT INTO t VALUES ('; DROP TABLE t')",
            "please do not drop table x",
        ] {
            assert_eq!(find_destructive(text), [], "{text}");
        }
    }
}
