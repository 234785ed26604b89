// SPDX-License-Identifier: Apache-2.0
// Token shards from strangers, with llm.c's header or bare: refused with a message, or every byte behind the header belongs
// to one token, and what is written of them reads back as the same.

#include <causeway/data/token_shard.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace {

namespace data = causeway::data;

void must(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::int32_t> all_of(const data::token_stream& stream) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

void check(std::span<const std::byte> file, std::optional<data::token_width> bare) {
  const auto stream = data::tokens_of_file(nullptr, file, bare, "input");
  if (!stream) return must(!stream.error().message.empty() && stream.error().where == "input");
  const auto tokens = all_of(*stream);
  const std::size_t bytes = tokens.size() * 2;
  must(file.size() == bytes || file.size() == 2 * bytes || file.size() == 1024 + bytes || file.size() == 1024 + 2 * bytes);
  const auto checked = stream->check_vocabulary(50257);
  must(checked.has_value() || !checked.error().message.empty());
  const auto image = data::shard_image::make(*stream, data::token_width::four).value();
  const auto written = image.read(0, static_cast<std::size_t>(image.size()));
  const auto again = data::tokens_of_file(nullptr, written, {}, "written");
  must(again.has_value() && all_of(*again) == tokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::span<const std::byte> file{reinterpret_cast<const std::byte*>(bytes), size};
  for (const auto bare : {std::optional<data::token_width>{}, std::optional{data::token_width::two},
                          std::optional{data::token_width::four}}) {
    check(file, bare);
  }
  if (size < 1024) return 0;
  std::vector<std::byte> mended{file.begin(), file.end()};  // with a count that fits, so that more of them get in
  std::int32_t version = 0;
  std::memcpy(&version, mended.data() + 4, sizeof version);
  const auto count = static_cast<std::int32_t>((size - 1024) / (version == 7 ? 4 : 2));
  std::memcpy(mended.data() + 8, &count, sizeof count);
  check(mended, {});
  return 0;
}
