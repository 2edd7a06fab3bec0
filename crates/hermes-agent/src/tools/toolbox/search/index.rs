//! Ranks tools by BM25 over names, descriptions and parameter names.

use std::collections::HashMap;

use hermes_mcp::RegisteredTool;

use super::MAX_DESCRIPTION_CHARS;

/// BM25: saturation of term frequency.
const K1: f64 = 1.5;
/// BM25: normalisation by document length.
const B: f64 = 0.75;

pub(super) struct ToolIndex {
    tools: Vec<ToolWords>,
    /// The number of tools that contain a word.
    document_frequency: HashMap<String, usize>,
    average_length: f64,
}

pub(super) struct ToolWords {
    counts: HashMap<String, usize>,
    length: usize,
    text: String,
}

pub(super) fn tool_words(tool: &RegisteredTool) -> ToolWords {
    let description = tool.description();
    let description = truncate_description(&description);
    let parameters = tool.parameters();
    let properties = parameters["properties"].as_object();
    let parameters = properties.into_iter().flat_map(|names| names.keys());
    ToolWords::new(tool.name.as_str(), description, parameters)
}

/// The part of a description that is searched and shown.
pub(super) fn truncate_description(description: &str) -> &str {
    match description.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        Some((end, _)) => &description[..end],
        None => description,
    }
}

impl ToolWords {
    fn new<'a>(
        name: &str,
        description: &str,
        parameters: impl Iterator<Item = &'a String>,
    ) -> Self {
        let mut all = split_words(name);
        all.extend(split_words(description));
        all.extend(parameters.flat_map(|name| split_words(name)));
        let length = all.len();
        let mut counts = HashMap::new();
        for word in all {
            *counts.entry(word).or_default() += 1;
        }
        Self {
            counts,
            length,
            text: format!("{name} {description}").to_lowercase(),
        }
    }
}

/// Lower-case words: `createIssue`, `create_issue` and "create issue" are the same two.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before_is_small = false;
    for letter in text.chars() {
        let begins_anew = before_is_small && letter.is_uppercase();
        if (!letter.is_alphanumeric() || begins_anew) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        before_is_small = letter.is_lowercase() || letter.is_numeric();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

impl ToolIndex {
    pub(super) fn new(tools: impl Iterator<Item = ToolWords>) -> Self {
        let tools: Vec<ToolWords> = tools.collect();
        let mut spread: HashMap<String, usize> = HashMap::new();
        for word in tools.iter().flat_map(|tool| tool.counts.keys()) {
            *spread.entry(word.clone()).or_default() += 1;
        }
        let total: usize = tools.iter().map(|tool| tool.length).sum();
        Self {
            average_length: number(total) / number(tools.len().max(1)),
            tools,
            document_frequency: spread,
        }
    }

    /// The best matches, best first. If no word matches, tools whose name or description contains the query.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut words = split_words(query);
        words.sort_unstable();
        words.dedup();
        let mut tools: Vec<(usize, f64)> = (0..self.tools.len())
            .map(|at| (at, self.score(&self.tools[at], &words)))
            .filter(|(_, score)| *score > 0.0)
            .collect();
        // The sort is stable: ties keep the order of the list.
        tools.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        if tools.is_empty() {
            let query = query.to_lowercase();
            let holds = |at: &usize| self.tools[*at].text.contains(&query);
            return (0..self.tools.len()).filter(holds).take(limit).collect();
        }
        tools.into_iter().take(limit).map(|(at, _)| at).collect()
    }

    fn score(&self, tool: &ToolWords, query: &[String]) -> f64 {
        let all = number(self.tools.len());
        let relative_length = number(tool.length) / self.average_length.max(1.0);
        query
            .iter()
            .filter_map(|word| {
                let often = number(*tool.counts.get(word)?);
                let spread = number(*self.document_frequency.get(word)?);
                let rarity = (1.0 + (all - spread + 0.5) / (spread + 0.5)).ln();
                let weight = often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * relative_length));
                Some(rarity * weight)
            })
            .sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [(&str, &str, &str); 4] = [
        (
            "mcp_github_create_issue",
            "Creates an issue in a repository.",
            "title",
        ),
        (
            "mcp_github_list_issues",
            "Lists the issues of a repository.",
            "state",
        ),
        ("mcp_mail_sendMessage", "Sends a letter.", "recipient"),
        ("mcp_files_read", "Reads a file.", "path"),
    ];

    fn index() -> ToolIndex {
        ToolIndex::new(TOOLS.iter().map(|(name, description, parameter)| {
            ToolWords::new(name, description, [(*parameter).to_owned()].iter())
        }))
    }

    fn found(query: &str) -> Vec<&'static str> {
        let tools = index().search(query, 5);
        tools.into_iter().map(|at| TOOLS[at].0).collect()
    }

    #[test]
    fn rare_words_count_for_more_than_common_ones() {
        assert_eq!(found("create issue")[0], "mcp_github_create_issue");
        assert_eq!(found("repository lists")[0], "mcp_github_list_issues");
        assert_eq!(found("repository").len(), 2);
    }

    #[test]
    fn names_are_searched_by_their_parts_and_parameters_by_name() {
        assert_eq!(found("send message"), ["mcp_mail_sendMessage"]);
        assert_eq!(found("Recipient"), ["mcp_mail_sendMessage"]);
    }

    #[test]
    fn without_a_whole_word_a_part_of_one_will_do() {
        assert_eq!(found("reposit").len(), 2);
        assert!(found("zebra").is_empty());
    }

    #[test]
    fn a_limit_holds_and_equal_matches_keep_their_order() {
        assert_eq!(index().search("mcp", 9), [3, 2, 0, 1]);
        assert_eq!(index().search("mcp", 2), [3, 2]);
    }

    #[test]
    fn words_are_split_at_signs_and_at_humps() {
        assert_eq!(
            split_words("readFile2_now, Ünder-way"),
            ["read", "file2", "now", "ünder", "way"]
        );
    }
}
