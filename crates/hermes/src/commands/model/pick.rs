//! Picking one line of a list by its number, its name, or a part of it.

use crate::{
    failure::Failure,
    output::{Output, printable},
    question::Questions,
};

/// More lines than this push the question's beginning off a usual screen.
const MAX_SHOWN: usize = 20;

/// Lets the person pick one of the names, or another one where that is allowed.
pub(super) fn pick_name(
    output: Output,
    questions: Questions,
    names: &[String],
    usual: Option<&str>,
    instead: &str,
) -> Result<String, Failure> {
    let mut shown: Vec<&String> = names.iter().collect();
    let mut confirmed: Option<String> = None;
    loop {
        for (index, name) in shown.iter().enumerate().take(MAX_SHOWN) {
            output.note(format!("{:>4}  {}", index + 1, printable(name)));
        }
        if shown.len() > MAX_SHOWN {
            let more = shown.len() - MAX_SHOWN;
            output.note(format!("      … and {more} more; type a part of a name"));
        }
        let usual = usual.or(names.first().map(String::as_str));
        let answer = questions.text("Model", usual, instead)?;
        let number = answer.parse::<usize>().ok().filter(|number| *number > 0);
        let numbered = number.and_then(|number| shown.get(number - 1));
        if let Some(name) = numbered {
            return Ok((*name).clone());
        }
        let is_known = names.contains(&answer);
        // Lists are not always complete, so a name may be insisted on.
        if is_known || names.is_empty() && !answer.is_empty() || confirmed.as_ref() == Some(&answer)
        {
            return Ok(answer);
        }
        let part = answer.to_lowercase();
        let matching: Vec<&String> = names
            .iter()
            .filter(|name| name.to_lowercase().contains(&part))
            .collect();
        if matching.is_empty() {
            output.note(format!(
                "`{}` is not in the list; type it again to use it all the same.",
                printable(&answer)
            ));
            confirmed = Some(answer);
        } else {
            shown = matching;
        }
    }
}
