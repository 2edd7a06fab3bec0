//! Which models accept images.
//!
//! `model.vision` decides if it is set. Otherwise the name decides, by known model families:
//! asking the provider would cost a request at each start, and most model lists do not say.

/// Name parts of models with vision. A part begins a name, or follows a `/`, `-`, `_`, `.` or `:` in it.
const VISION_MODELS: [&str; 38] = [
    "claude-3",
    "claude-4",
    "claude-5",
    "claude-opus",
    "claude-sonnet",
    "claude-haiku",
    "claude-fable",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4-turbo",
    "gpt-5",
    "gpt-6",
    "chatgpt-4o",
    "o1",
    "o3",
    "o4",
    "gemini",
    "gemma3",
    "gemma-3",
    "gemma4",
    "gemma-4",
    "grok-4",
    "grok-5",
    "llava",
    "bakllava",
    "llama3.2-vision",
    "llama4",
    "llama-4",
    "pixtral",
    "mistral-small",
    "mistral-medium",
    "minicpm-v",
    "moondream",
    "qwen-vl",
    "vl",
    "vision",
    "internvl",
    "multimodal",
];

/// Name parts of exceptions without vision.
const TEXT_ONLY_MODELS: [&str; 6] = [
    "o1-mini",
    "o1-preview",
    "o3-mini",
    "claude-3-5-haiku",
    "gpt-4-turbo-preview",
    "gemma3:1b",
];

/// Whether a model is known to accept images, by its name.
pub(crate) fn has_vision(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let has = |part: &&str| has_part(&name, part);
    VISION_MODELS.iter().any(has) && !TEXT_ONLY_MODELS.iter().any(has)
}

fn has_part(name: &str, part: &str) -> bool {
    let is_edge = |before: Option<char>| before.is_none_or(|before| "/-_.:".contains(before));
    name.match_indices(part).any(|(at, _)| {
        let after = name[at + part.len()..].chars().next();
        // `vl` must be a separate part; `gpt-5.1`, `o3-pro` and `qwen2.5vl` need not.
        let ends = part.len() > 2 || after.is_none_or(|after| !after.is_ascii_alphanumeric());
        ends && (is_edge(name[..at].chars().next_back()) || part == "vl")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_that_see_are_known_by_name() {
        for name in [
            "claude-sonnet-5",
            "anthropic/claude-3.7-sonnet",
            "gpt-5-mini",
            "openai/gpt-4o",
            "o3",
            "o4-mini",
            "gemini-3-pro",
            "models/gemini-2.5-flash",
            "qwen2.5vl:7b",
            "Qwen/Qwen3-VL-8B",
            "llava:13b",
            "gemma3:4b",
            "llama3.2-vision",
        ] {
            assert!(has_vision(name), "{name}");
        }
    }

    #[test]
    fn others_are_taken_to_be_blind() {
        for name in [
            "qwen3:8b",
            "gpt-3.5-turbo",
            "o1-mini",
            "o3-mini",
            "deepseek-chat",
            "gpt-oss:20b",
            "foo1",
            "pro3",
            "kimi-k2",
            "llama3.1",
        ] {
            assert!(!has_vision(name), "{name}");
        }
    }
}
