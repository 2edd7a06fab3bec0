//! `hermes model --list`: every provider that could be used right now, with its models.

use serde_json::{Value, json};

use super::offers::{ProviderOffer, find_offers};
use crate::{
    context::Context,
    failure::Failure,
    output::{Tone, printable},
};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let offers = context.block_on(async { Ok(find_offers(context, &settings).await) })?;
    let output = context.output;
    if offers.is_empty() {
        output.note(
            "No provider's key is set, and no server on this machine has a model.\n\n\
             hint: put a key into the home's `.env`, such as `OPENAI_API_KEY=…`, or start a server such as Ollama",
        );
    }
    for offer in &offers {
        output.line(format!(
            "{}  {}",
            offer.name,
            output.tint(Tone::Faint, &offer.address)
        ));
        match &offer.models {
            Ok(models) => {
                for model in models {
                    output.line(format!("  {}", printable(model)));
                }
            }
            Err(error) => output.line(format!("  ({error})")),
        }
    }
    let offers: Vec<Value> = offers.iter().map(offer_json).collect();
    output.json(json!({"offers": offers}));
    Ok(())
}

fn offer_json(offer: &ProviderOffer) -> Value {
    json!({
        "provider": offer.name,
        "address": offer.address,
        "local": offer.is_local,
        "models": offer.models.as_ref().ok(),
        "problem": offer.models.as_ref().err().map(ToString::to_string),
    })
}
