//! Something spoken, as Discord shows it: how long it takes, and how loud it is.
//!
//! Discord wants both from whoever sends it. The length is in the file; for the loudness the sizes of its packets stand in,
//! since an encoder spends bytes where there is something to hear.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::rest::DiscordFailure;
use crate::platform::{AttachmentKind, OutboundMessage};

/// The flag of a message that is something spoken.
pub(super) const VOICE_MESSAGE: u64 = 1 << 13;
/// The points of a waveform.
const MAX_POINTS: usize = 256;
const POINTS_PER_SECOND: u64 = 10;
/// Larger files are not looked at: Discord takes none of them.
const MAX_BYTES: u64 = 25 << 20;
/// Opus counts 48,000 samples a second, whatever was recorded.
const SAMPLES_PER_SECOND: u32 = 48_000;
/// Packets before the sound: what it is, and its title.
const HEADERS: usize = 2;
const PAGE_HEAD: usize = 27;

/// Why Discord does not take a voice message that it may take as a file.
const VOICE_REFUSALS: [u64; 5] = [
    // Missing permissions: an invitation from before asks for less.
    50_013, 50_159, 50_160, 50_161, 50_173,
];

pub(super) fn is_refused(failure: &DiscordFailure) -> bool {
    VOICE_REFUSALS.iter().any(|code| failure.has_code(*code))
}

/// What Discord is told about the one recording that a message is. `None` if it is something else: such a message has no
/// text.
pub(super) async fn describe_recording(message: &OutboundMessage) -> Option<Value> {
    let [file] = message.files.as_slice() else {
        return None;
    };
    if file.kind != AttachmentKind::Voice || !message.text.trim().is_empty() {
        return None;
    }
    let recording = Recording::from_bytes(&read_file(&file.path).await?)?;
    Some(json!({
        "id": 0, "filename": file.name, "duration_secs": recording.seconds(),
        "waveform": STANDARD.encode(recording.waveform()),
    }))
}

async fn read_file(path: &Path) -> Option<Vec<u8>> {
    let size = tokio::fs::metadata(path).await.ok()?.len();
    if size > MAX_BYTES {
        return None;
    }
    tokio::fs::read(path).await.ok()
}

/// A recording in an Ogg file with Opus in it.
#[derive(Debug, PartialEq, Eq)]
struct Recording {
    samples: u64,
    /// The sizes of its packets, in order.
    packets: Vec<usize>,
}

impl Recording {
    /// `None` if it is another kind of file.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let (mut packets, mut open) = (Vec::new(), 0);
        let (mut end, mut skipped) = (0, None);
        while !bytes.is_empty() {
            let page = OggPage::take(&mut bytes)?;
            if skipped.is_none() {
                let head = page.content.strip_prefix(b"OpusHead")?;
                let count = head.get(2..4)?.try_into().ok()?;
                skipped = Some(u64::from(u16::from_le_bytes(count)));
            }
            for size in page.sizes {
                open += usize::from(*size);
                // A packet goes on behind a full segment.
                if *size < u8::MAX {
                    packets.push(std::mem::take(&mut open));
                }
            }
            // Of a page on which no packet ends it is -1.
            end = page.position.unwrap_or(end);
        }
        let packets: Vec<usize> = packets.into_iter().skip(HEADERS).collect();
        let samples = end.checked_sub(skipped?)?;
        (samples > 0 && !packets.is_empty()).then_some(Self { samples, packets })
    }

    fn seconds(&self) -> f64 {
        let milliseconds = self.samples.saturating_mul(1000) / u64::from(SAMPLES_PER_SECOND);
        f64::from(u32::try_from(milliseconds).unwrap_or(u32::MAX)) / 1000.0
    }

    /// Its loudness over time, from 0 to 255.
    fn waveform(&self) -> Vec<u8> {
        let points = self.samples.saturating_mul(POINTS_PER_SECOND);
        let points = points / u64::from(SAMPLES_PER_SECOND);
        let points = usize::try_from(points).unwrap_or(MAX_POINTS);
        let points = points.clamp(1, MAX_POINTS);
        let per_point = self.packets.len().div_ceil(points);
        let loudest = self.packets.iter().max().copied().unwrap_or_default();
        let level = |packets: &[usize]| {
            let mean = packets.iter().sum::<usize>() / packets.len();
            u8::try_from(mean * 255 / loudest.max(1)).unwrap_or(u8::MAX)
        };
        self.packets.chunks(per_point).map(level).collect()
    }
}

/// A page of an Ogg file.
struct OggPage<'b> {
    /// The samples up to its end.
    position: Option<u64>,
    /// The sizes of the segments of its content.
    sizes: &'b [u8],
    content: &'b [u8],
}

impl<'b> OggPage<'b> {
    /// Takes the next page off.
    fn take(bytes: &mut &'b [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(PAGE_HEAD)?;
        if !head.starts_with(b"OggS") {
            return None;
        }
        let position = i64::from_le_bytes(head[6..14].try_into().ok()?);
        let (sizes, rest) = rest.split_at_checked(usize::from(head[26]))?;
        let length = sizes.iter().map(|size| usize::from(*size)).sum();
        let (content, rest) = rest.split_at_checked(length)?;
        *bytes = rest;
        Some(Self {
            position: u64::try_from(position).ok(),
            sizes,
            content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(position: i64, sizes: &[u8], content: &[u8]) -> Vec<u8> {
        let mut page = b"OggS\0\0".to_vec();
        page.extend(position.to_le_bytes());
        page.extend([0; 12]);
        page.push(u8::try_from(sizes.len()).unwrap());
        page.extend(sizes);
        page.extend(content);
        page
    }

    /// A recording of so many seconds, a packet every 20 ms, that is quiet at first and loud at last.
    fn recording(seconds: u8) -> Vec<u8> {
        let mut head = b"OpusHead\x01\x01".to_vec();
        head.extend(312_u16.to_le_bytes());
        head.extend([0; 7]);
        let mut bytes = page(0, &[19], &head);
        bytes.extend(page(0, &[8], b"OpusTags"));
        for second in 1..=seconds {
            let size = if second > seconds / 2 { 200 } else { 20 };
            let content = vec![7; usize::from(size) * 50];
            let position = i64::from(second) * 48_000 + 312;
            bytes.extend(page(position, &[size; 50], &content));
        }
        bytes
    }

    #[test]
    fn the_length_and_the_loudness_are_in_the_file() {
        let found = Recording::from_bytes(&recording(4)).unwrap();
        assert!((found.seconds() - 4.0).abs() < 0.001, "{}", found.seconds());
        let waveform = found.waveform();
        assert_eq!(waveform.len(), 40);
        assert_eq!((waveform[0], waveform[39]), (25, 255));
        // However long it is.
        let long = Recording::from_bytes(&recording(200)).unwrap();
        assert!(long.waveform().len() <= MAX_POINTS);
    }

    #[test]
    fn a_packet_may_have_several_segments_and_pages() {
        let mut head = b"OpusHead\x01\x01".to_vec();
        head.extend([0; 9]);
        let mut bytes = page(0, &[19], &head);
        bytes.extend(page(0, &[8], b"OpusTags"));
        bytes.extend(page(-1, &[255], &[1; 255]));
        bytes.extend(page(960, &[45], &[1; 45]));
        let found = Recording::from_bytes(&bytes).unwrap();
        assert_eq!((found.samples, found.packets), (960, vec![300]));
    }

    #[test]
    fn other_files_are_none() {
        let whole = recording(1);
        for bytes in [
            &b""[..],
            b"ID3 music",
            b"OggS",
            &whole[..whole.len() - 1],
            &page(0, &[7], b"\x01vorbis"),
        ] {
            assert_eq!(Recording::from_bytes(bytes), None);
        }
    }
}
