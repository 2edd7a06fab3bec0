//! Parses a patch: `*** Begin Patch`, operations on files, `*** End Patch`.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) enum PatchOperation {
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        move_to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

impl PatchOperation {
    pub(in crate::tools) fn paths(&self) -> Vec<&str> {
        match self {
            Self::Add { path, .. } | Self::Delete { path } => vec![path],
            Self::Update { path, move_to, .. } => std::iter::once(path)
                .chain(move_to)
                .map(String::as_str)
                .collect(),
        }
    }
}

/// A change at one position of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::tools) struct Hunk {
    /// A line somewhere above.
    pub(in crate::tools) anchor: Option<String>,
    pub(in crate::tools) lines: Vec<HunkLine>,
    /// Whether it is at the end of the file.
    pub(in crate::tools) is_at_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) enum HunkLine {
    Context(String),
    Remove(String),
    Add(String),
}

pub(in crate::tools) fn parse_patch(text: &str) -> Result<Vec<PatchOperation>, String> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim() != "*** Begin Patch");
    if lines.next().is_none() {
        return Err("a patch begins with `*** Begin Patch`".into());
    }
    let mut operations = Vec::new();
    for (number, line) in lines.enumerate() {
        if line.trim_end() == "*** End Patch" {
            break;
        }
        match line.strip_prefix("*** ").map(str::trim_end) {
            Some(marker) => read_marker_line(marker, &mut operations)?,
            None => read_content_line(line, &mut operations)
                .map_err(|problem| format!("line {}: {problem}", number + 2))?,
        }
    }
    for operation in &operations {
        if let PatchOperation::Update {
            path,
            move_to: None,
            hunks,
        } = operation
            && hunks.iter().all(|hunk| hunk.lines.is_empty())
        {
            return Err(format!("the update of {path} changes nothing"));
        }
    }
    if operations.is_empty() {
        Err("the patch has no operation".into())
    } else {
        Ok(operations)
    }
}

fn read_marker_line(marker: &str, operations: &mut Vec<PatchOperation>) -> Result<(), String> {
    if marker == "End of File" {
        if let Some(PatchOperation::Update { hunks, .. }) = operations.last_mut()
            && let Some(hunk) = hunks.last_mut()
        {
            hunk.is_at_end = true;
        }
        return Ok(());
    }
    let (verb, path) = marker
        .split_once(':')
        .ok_or_else(|| format!("`*** {marker}` is not understood"))?;
    let path = path.trim();
    if path.is_empty() {
        return Err(format!("`*** {marker}` names no file"));
    }
    let path = path.to_owned();
    match verb {
        "Add File" => operations.push(PatchOperation::Add {
            path,
            content: String::new(),
        }),
        "Delete File" => operations.push(PatchOperation::Delete { path }),
        "Update File" => operations.push(PatchOperation::Update {
            path,
            move_to: None,
            hunks: Vec::new(),
        }),
        "Move to" => match operations.last_mut() {
            Some(PatchOperation::Update { move_to, hunks, .. }) if hunks.is_empty() => {
                *move_to = Some(path);
            }
            _ => return Err("`*** Move to` belongs right after `*** Update File`".into()),
        },
        "Move File" => {
            let (from, to) = path
                .split_once("->")
                .ok_or("`*** Move File` takes `old path -> new path`")?;
            let (path, move_to) = (from.trim().to_owned(), Some(to.trim().to_owned()));
            operations.push(PatchOperation::Update {
                path,
                move_to,
                hunks: Vec::new(),
            });
        }
        _ => return Err(format!("`*** {verb}` is not understood")),
    }
    Ok(())
}

fn read_content_line(line: &str, operations: &mut [PatchOperation]) -> Result<(), String> {
    match operations.last_mut() {
        Some(PatchOperation::Add { content, .. }) => {
            let Some(line) = line.strip_prefix('+') else {
                return if line.trim().is_empty() {
                    Ok(())
                } else {
                    Err("every line of a new file begins with `+`".into())
                };
            };
            content.push_str(line);
            content.push('\n');
        }
        Some(PatchOperation::Update { hunks, .. }) => {
            if let Some(anchor) = line.strip_prefix("@@") {
                let anchor = anchor.trim().trim_end_matches("@@").trim();
                // Line numbers as in `@@ -1,3 +1,4 @@` are not trusted.
                let anchor =
                    Some(anchor).filter(|anchor| !anchor.is_empty() && !anchor.starts_with('-'));
                hunks.push(Hunk {
                    anchor: anchor.map(str::to_owned),
                    ..Hunk::default()
                });
                return Ok(());
            }
            let line = match line.split_at_checked(1) {
                Some(("+", rest)) => HunkLine::Add(rest.into()),
                Some(("-", rest)) => HunkLine::Remove(rest.into()),
                Some((" ", rest)) => HunkLine::Context(rest.into()),
                // The space before an empty line is often lost.
                None => HunkLine::Context(String::new()),
                Some(_) => return Err("a line of a hunk begins with a blank, `-` or `+`".into()),
            };
            if hunks.is_empty() {
                hunks.push(Hunk::default());
            }
            if let Some(hunk) = hunks.last_mut() {
                hunk.lines.push(line);
            }
        }
        _ if line.trim().is_empty() => {}
        _ => return Err("text outside of an operation".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_read() {
        let text = "*** Begin Patch\n*** Add File: a\n+one\n+\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n\
                    @@ fn x\n keep\n-old\n+new\n\n*** End of File\n*** Move File: e -> f\n*** End Patch\nignored";
        let operations = parse_patch(text).unwrap();
        assert_eq!(
            operations[0],
            PatchOperation::Add {
                path: "a".into(),
                content: "one\n\n".into()
            }
        );
        assert_eq!(operations[1], PatchOperation::Delete { path: "b".into() });
        let hunk = Hunk {
            anchor: Some("fn x".into()),
            lines: vec![
                HunkLine::Context("keep".into()),
                HunkLine::Remove("old".into()),
                HunkLine::Add("new".into()),
                HunkLine::Context(String::new()),
            ],
            is_at_end: true,
        };
        let update = PatchOperation::Update {
            path: "c".into(),
            move_to: Some("d".into()),
            hunks: vec![hunk],
        };
        assert_eq!(operations[2], update);
        assert_eq!(operations[3].paths(), ["e", "f"]);
    }

    #[test]
    fn what_is_not_a_patch_is_refused_with_a_reason() {
        for (text, expected) in [
            ("diff --git", "begins with"),
            ("*** Begin Patch\n*** End Patch", "no operation"),
            ("*** Begin Patch\n*** Add File: a\nx", "line 3"),
            ("*** Begin Patch\n*** Rename: a", "not understood"),
            (
                "*** Begin Patch\n*** Update File: a\n*** End Patch",
                "changes nothing",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n?x",
                "begins with a blank",
            ),
            ("*** Begin Patch\n*** Add File:\n", "names no file"),
        ] {
            let problem = parse_patch(text).unwrap_err();
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
    }
}
