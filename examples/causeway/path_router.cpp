// SPDX-License-Identifier: Apache-2.0
#include "path_router.hpp"

#include <causeway/io/archive.hpp>
#include <causeway/io/file.hpp>
#include <causeway/nn/prefix_features.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "chosen_model.hpp"
#include "path_layout.hpp"
#include "starting_model.hpp"
#include "text_file.hpp"

namespace app {
namespace {

constexpr std::int64_t texts_at_once = 32;  // of a forward pass

std::string router_file(const std::string& folder, std::uint64_t step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%08llu", static_cast<unsigned long long>(step));
  return folder + "/router-" + digits + ".bin";
}

std::optional<std::uint64_t> step_of_router(const std::string& name) {
  constexpr std::string_view before = "router-", after = ".bin";
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size() - after.size();
  const auto read = std::from_chars(name.data() + before.size(), end, step);
  return read.ec == std::errc{} && read.ptr == end ? std::optional{step} : std::nullopt;
}

}  // namespace

causeway::result<std::vector<float>> features_of(const settings& s, std::int64_t vocabulary,
                                                 const causeway::data::token_stream& tokens,
                                                 std::span<const std::int64_t> firsts, std::int64_t prefix) {
  CAUSEWAY_ASSIGN(chosen_model base, make_model(s, vocabulary));
  CAUSEWAY_TRY(start_from(base, s, false));
  std::vector<float> features;
  std::vector<std::int32_t> inputs;
  for (std::size_t at = 0; at < firsts.size(); at += texts_at_once) {
    const auto some = firsts.subspan(at, std::min<std::size_t>(texts_at_once, firsts.size() - at));
    inputs.resize(some.size() * static_cast<std::size_t>(prefix));
    for (std::size_t i = 0; i < some.size(); ++i) {
      tokens.read(some[i],
                  std::span{inputs}.subspan(i * static_cast<std::size_t>(prefix), static_cast<std::size_t>(prefix)));
    }
    CAUSEWAY_TRY(causeway::nn::prefix_features(base, inputs, std::ssize(some), features));
  }
  return features;
}

bool fits(const causeway::data::document_router& router, const settings& s) {
  return router.width() == static_cast<std::size_t>(s.model.width) && router.paths() == path_count(s);
}

std::size_t router_bytes(const settings& s) {
  constexpr std::size_t around = 64;
  return around + sizeof(double) * path_count(s) * (static_cast<std::size_t>(s.model.width) + 1);
}

causeway::result<void> keep_router(causeway::io::any_storage& storage, const std::string& folder, std::uint64_t step,
                                   std::span<const std::byte> router) {
  return storage.write_atomic(router_file(folder, step), causeway::io::produce(router));
}

causeway::result<void> note_path(causeway::io::any_storage& storage, const std::string& folder, std::uint32_t path) {
  const std::string said = std::to_string(path) + "\n";
  return storage.write_atomic(folder + "/path", causeway::io::produce(said));
}

causeway::result<std::uint32_t> noted_path(const std::string& folder) {
  CAUSEWAY_ASSIGN(const std::string said, read_text(folder + "/path"));
  std::uint32_t path = 0;
  const auto read = std::from_chars(said.data(), said.data() + said.size(), path);
  if (read.ec == std::errc{}) return path;
  return causeway::fail(causeway::errc::corrupt, folder + "/path", "is no number");
}

causeway::result<causeway::data::document_router> kept_router(const std::string& folder, std::uint64_t step) {
  std::optional<std::uint64_t> newest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
    const auto made = step_of_router(entry.path().filename().string());
    if (made && *made <= step && (!newest || *made > *newest)) newest = made;
  }
  if (!newest) return causeway::fail(causeway::errc::not_found, folder, "has no router of documents to paths");
  causeway::io::posix_storage storage;
  const std::string file = router_file(folder, *newest);
  CAUSEWAY_ASSIGN(const auto bytes, storage.read(file));
  causeway::data::document_router router;
  auto read = causeway::io::archiver{}.from_bytes(std::span<const std::byte>{bytes}, router);
  if (!read) {
    read.error().where = file;
    return read.error();
  }
  return router;
}

}  // namespace app
