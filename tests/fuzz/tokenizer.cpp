// SPDX-License-Identifier: Apache-2.0
// Tokenizers from strangers, as tokenizer.json, vocab.json with merges.txt behind it, ranks, or the text that peers send
// each other: refused with a message, or one that gives any text back, and whose own text reads back as the same.

#include <causeway/formats/tokenizer_json.hpp>
#include <causeway/formats/tokenizer_parts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using causeway::data::bpe_tokenizer;
namespace formats = causeway::formats;

void check(causeway::result<bpe_tokenizer> read, std::string_view text) {
  if (!read) {
    if (read.error().message.empty()) std::abort();
    return;
  }
  std::vector<std::int32_t> tokens;
  read->encode(text, tokens);
  std::string back;
  if (!read->decode(tokens, back) || back != text) std::abort();
  const auto kept = bpe_tokenizer::from_text(read->to_text(), "kept");
  if (!kept || kept->table() != read->table()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check(formats::read_tokenizer(text, "input"), text);
  const std::size_t merges = std::min(text.find("#version"), text.size());
  check(formats::read_vocabulary_and_merges(text.substr(0, merges), text.substr(merges), "input"), text);
  check(formats::read_tiktoken(text, causeway::data::piece_rule::llama3, "input"), text);
  const std::string body{text.substr(0, text.rfind("checksum "))};  // signed again, so that it gets past the checksum
  check(bpe_tokenizer::from_text(body + causeway::data::detail::checksum_line(body), "input"), text);
  return 0;
}
