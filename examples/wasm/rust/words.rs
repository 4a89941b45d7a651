// Counts the lines, words and bytes of its input, as a task of package wasm:
//
//	rustc -O -C strip=symbols -C lto=fat -C panic=abort --target wasm32-wasip1 -o words-rust.wasm words.rs
use std::io::Read;

fn main() -> std::io::Result<()> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let lines = text.iter().filter(|&&b| b == b'\n').count();
    let words = text
        .split(|b| b.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .count();
    println!("{} {} {}", lines, words, text.len());
    Ok(())
}
