// SPDX-License-Identifier: Apache-2.0
// Gives a fuzzed function the files that it is told, and changed copies of them, from a seed: what a fuzzing engine does,
// but in every test run, with every compiler, and the same every time.
//
//   fuzz_safetensors --runs N [--seed S] FILE...

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using input = std::vector<std::uint8_t>;

// What parsers get wrong: signs, ends of ranges, what closes and opens.
const std::vector<std::string> words{"0",
                                     "-1",
                                     "18446744073709551615",
                                     "9223372036854775807",
                                     "4294967296",
                                     "1e99",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     ",",
                                     ":",
                                     "null",
                                     "F64",
                                     "BOOL",
                                     "\\u0000",
                                     "\xFF"};

void change(input& bytes, const input& other, causeway::rng& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
  const std::size_t at = below(bytes.size() + 1);
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t length = std::min(bytes.size() - at, below(32));
  switch (below(6)) {
    case 0: bytes.insert(place, static_cast<std::uint8_t>(below(256))); break;
    case 1: bytes.erase(place, place + static_cast<std::ptrdiff_t>(length)); break;
    case 2: {
      const std::string& word = words[below(words.size())];
      bytes.insert(place, word.begin(), word.end());
      break;
    }
    case 3: {
      const std::size_t from = below(other.size() + 1);
      const input piece{other.begin() + static_cast<std::ptrdiff_t>(from),
                        other.begin() + static_cast<std::ptrdiff_t>(from + std::min(other.size() - from, below(64)))};
      bytes.insert(place, piece.begin(), piece.end());
      break;
    }
    case 4: bytes.resize(at); break;
    default:
      if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1U << below(8)));
  }
}

// A length in front that fits what follows gets further in.
void mend_length(input& bytes) {
  const auto close = std::find(bytes.rbegin(), bytes.rend(), std::uint8_t{'}'});
  const auto end = static_cast<std::uint64_t>(bytes.rend() - close);
  if (end < 8) return;
  const std::uint64_t length = end - 8;
  std::memcpy(bytes.data(), &length, sizeof length);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 1000, seed = 1;
  std::vector<input> files;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--runs" && i + 1 < argc) {
      runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (a == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream in{a, std::ios::binary};
      if (!in) return std::fprintf(stderr, "%s: cannot be read\n", a.c_str()), 2;
      files.emplace_back(std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{});
    }
  }
  if (files.empty()) return std::fprintf(stderr, "give files to start from\n"), 2;
  for (const input& f : files) LLVMFuzzerTestOneInput(f.data(), f.size());
  causeway::rng random{seed, 0};
  for (std::uint64_t i = 0; i < runs; ++i) {
    input bytes = files[random.below(files.size())];
    const input& other = files[random.below(files.size())];
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) change(bytes, other, random);
    if (random.below(2) == 0 && bytes.size() >= 8) mend_length(bytes);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu files and %llu changed ones\n", files.size(), static_cast<unsigned long long>(runs));
  return 0;
}
