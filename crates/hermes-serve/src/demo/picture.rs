//! A small PNG, drawn and encoded without a library: four colours, two bits a pixel, stored uncompressed.

const SIDE: u32 = 64;
const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Background, disc, letter, rim.
const PALETTE: [[u8; 3]; 4] = [
    [0xf4, 0xf1, 0xea],
    [0x23, 0x4e, 0x8c],
    [0xff, 0xff, 0xff],
    [0xd9, 0xa4, 0x41],
];

/// The encoded picture: about 1.2 KB.
pub(super) fn png() -> Vec<u8> {
    let side = SIDE.to_be_bytes();
    let mut header = [side, side].concat();
    // Two bits a pixel, palette, and the only compression, filter and no interlacing.
    header.extend([2, 3, 0, 0, 0]);

    let mut png = SIGNATURE.to_vec();
    push_chunk(&mut png, *b"IHDR", &header);
    push_chunk(&mut png, *b"PLTE", PALETTE.as_flattened());
    push_chunk(&mut png, *b"IDAT", &zlib_stored(&scanlines()));
    push_chunk(&mut png, *b"IEND", &[]);
    png
}

/// The palette index of one pixel.
fn colour(x: u32, y: u32) -> u8 {
    let (dx, dy) = (2 * x.abs_diff(SIDE / 2), 2 * y.abs_diff(SIDE / 2));
    let distance_squared = dx * dx + dy * dy;
    let in_stem = (20..=43).contains(&y) && ((20..=25).contains(&x) || (38..=43).contains(&x));
    let in_bar = (29..=34).contains(&y) && (20..=43).contains(&x);
    if in_stem || in_bar {
        2
    } else if distance_squared < 54 * 54 {
        1
    } else if distance_squared < 60 * 60 {
        3
    } else {
        0
    }
}

/// Rows of four pixels a byte, each row led by its filter (0: none).
fn scanlines() -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..SIDE {
        rows.push(0);
        for x in (0..SIDE).step_by(4) {
            rows.push((0..4).fold(0, |byte, i| byte << 2 | colour(x + i, y)));
        }
    }
    rows
}

fn push_chunk(png: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    png.extend(length.to_be_bytes());
    let start = png.len();
    png.extend(kind);
    png.extend(content);
    let checksum = crc32(&png[start..]);
    png.extend(checksum.to_be_bytes());
}

/// A zlib stream of stored blocks: valid, though it saves nothing.
fn zlib_stored(content: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = content.chunks(usize::from(u16::MAX));
    let last = blocks.len().saturating_sub(1);
    for (i, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(i == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(content).to_be_bytes());
    stream
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_agree_with_published_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn the_file_is_small_and_its_chunks_add_up() {
        let png = png();
        assert!(png.len() < 1500, "{} bytes", png.len());
        let mut rest = png.strip_prefix(&SIGNATURE).unwrap();
        let mut kinds = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            let (body, after) = after.split_at(4 + length);
            let (checksum, after) = after.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_be_bytes(*checksum), crc32(body));
            kinds.push(String::from_utf8_lossy(&body[..4]).into_owned());
            rest = after;
        }
        assert_eq!(kinds, ["IHDR", "PLTE", "IDAT", "IEND"]);
        assert!(png.ends_with(b"IEND\xae\x42\x60\x82"));
    }

    #[test]
    fn the_letter_stands_on_the_disc() {
        assert_eq!(colour(0, 0), 0);
        assert_eq!(colour(32, 12), 1);
        assert_eq!(colour(22, 22), 2);
        assert_eq!(colour(32, 32), 2);
        assert_eq!(scanlines().len(), 64 * 17);
    }
}
