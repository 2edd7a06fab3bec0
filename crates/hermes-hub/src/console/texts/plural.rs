//! Which form of a text goes with a number, by the rules of a language file.
//!
//! A rule is a line `plural.FORM = CONDITION` in the notation of Unicode's plural rules, for whole numbers: `n = 1`, or
//! `n % 10 = 2..4 and n % 100 != 12..14`. The first form whose condition holds is taken, else `other`. The texts have the
//! form behind their key: `files.count.few`.

use std::ops::RangeInclusive;

/// All forms that languages have, besides `other`.
const FORMS: [&str; 5] = ["zero", "one", "two", "few", "many"];
/// Of every number without a form of its own.
pub(super) const OTHER: &str = "other";

/// The rules of a language.
#[derive(Debug, Clone)]
pub(super) struct PluralRules(Vec<(&'static str, PluralCondition)>);

/// Alternatives; of one of them, all parts hold.
#[derive(Debug, Clone)]
struct PluralCondition(Vec<Vec<PluralRelation>>);

/// Whether a number, or what is left of it, is among others.
#[derive(Debug, Clone)]
struct PluralRelation {
    modulus: Option<u64>,
    is_among: bool,
    ranges: Vec<RangeInclusive<u64>>,
}

impl PluralRules {
    /// Reads the rules among the texts of a language. One that cannot be read is none, which a test excludes.
    pub(super) fn read(find: impl Fn(&str) -> Option<&'static str>) -> Self {
        let rules = FORMS.into_iter().filter_map(|form| {
            let rule = find(&format!("plural.{form}"))?;
            Some((form, PluralCondition::parse(rule)?))
        });
        Self(rules.collect())
    }

    /// The form of texts about a number.
    pub(super) fn form(&self, number: u64) -> &'static str {
        let found = self.0.iter().find(|(_, condition)| condition.holds(number));
        found.map_or(OTHER, |(form, _)| *form)
    }

    /// All forms of the language.
    pub(super) fn forms(&self) -> impl Iterator<Item = &'static str> {
        let own = self.0.iter().map(|(form, _)| *form);
        own.chain([OTHER])
    }
}

impl PluralCondition {
    fn parse(text: &str) -> Option<Self> {
        let alternatives = text.split(" or ").map(|alternative| {
            let parts = alternative.split(" and ").map(PluralRelation::parse);
            parts.collect::<Option<Vec<_>>>()
        });
        alternatives.collect::<Option<_>>().map(Self)
    }

    fn holds(&self, number: u64) -> bool {
        let mut alternatives = self.0.iter();
        alternatives.any(|parts| parts.iter().all(|part| part.holds(number)))
    }
}

impl PluralRelation {
    fn parse(text: &str) -> Option<Self> {
        let (left, right) = text.split_once('=')?;
        let (left, is_among) = match left.strip_suffix('!') {
            Some(left) => (left, false),
            None => (left, true),
        };
        let words: Vec<&str> = left.split_whitespace().collect();
        let modulus = match words.as_slice() {
            ["n"] => None,
            ["n", "%", modulus] => Some(modulus.parse().ok().filter(|modulus| *modulus > 0)?),
            _ => return None,
        };
        let ranges = right.split(',').map(|range| {
            let (first, last) = range.split_once("..").unwrap_or((range, range));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        });
        Some(Self {
            modulus,
            is_among,
            ranges: ranges.collect::<Option<_>>()?,
        })
    }

    fn holds(&self, number: u64) -> bool {
        let number = self.modulus.map_or(number, |modulus| number % modulus);
        let is_among = self.ranges.iter().any(|range| range.contains(&number));
        is_among == self.is_among
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(of: &[(&str, &'static str)]) -> PluralRules {
        let of: Vec<(String, &'static str)> = of
            .iter()
            .map(|(form, rule)| (format!("plural.{form}"), *rule))
            .collect();
        PluralRules::read(|key| {
            let found = of.iter().find(|(form, _)| form == key);
            found.map(|(_, rule)| *rule)
        })
    }

    #[test]
    fn a_number_has_the_form_whose_rule_holds_first() {
        let polish = rules(&[
            ("one", "n = 1"),
            ("few", "n % 10 = 2..4 and n % 100 != 12..14"),
        ]);
        for (number, form) in [
            (0, "other"),
            (1, "one"),
            (2, "few"),
            (5, "other"),
            (12, "other"),
            (21, "other"),
            (22, "few"),
            (112, "other"),
        ] {
            assert_eq!(polish.form(number), form, "{number}");
        }
        assert_eq!(polish.forms().collect::<Vec<_>>(), ["one", "few", "other"]);
        let latvian = rules(&[
            ("zero", "n % 10 = 0 or n % 100 = 11..19"),
            ("one", "n = 1,3"),
        ]);
        let forms: Vec<_> = [10, 111, 1, 3, 2].map(|number| latvian.form(number)).into();
        assert_eq!(forms, ["zero", "zero", "one", "one", "other"]);
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_none() {
        for rule in [
            "",
            "n",
            "x = 1",
            "n % 0 = 1",
            "n = a",
            "n = 1..",
            "n = 1 and",
        ] {
            assert!(PluralCondition::parse(rule).is_none(), "{rule}");
        }
    }
}
