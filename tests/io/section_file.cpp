// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/section_file.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

const std::vector<float> weights{1.0F, 2.0F, 3.0F};

io::byte_vector file_of(const std::vector<io::section>& sections, io::section_stamp stamp = {.run_id = 3, .step = 40}) {
  io::byte_vector all;
  const auto written = io::write_sections(
      [&](std::span<const std::byte> piece) -> cw::result<void> {
        all.insert(all.end(), piece.begin(), piece.end());
        return {};
      },
      stamp, sections);
  REQUIRE(written);
  return all;
}

io::byte_vector example() {
  return file_of({io::section::of<float>("model", 1, weights),
                  {"empty", 2, io::byte_vector{}},
                  {"rng", 3, io::byte_vector(70, std::byte{0xA5})}});
}

// Puts the right checksum behind a header that a test has changed.
void sign_header(io::byte_vector& bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 40, 4);
  const std::uint64_t checksum = cw::hash_bytes(std::span{bytes}.first(length - 8));
  std::memcpy(bytes.data() + length - 8, &checksum, 8);
}

}  // namespace

TEST_CASE("section file: gives back stamp, names, versions and bytes", "[io][fast]") {
  auto parsed = io::section_file::parse(example(), "x.ckpt");
  REQUIRE(parsed);
  const io::section_file file = std::move(*parsed);  // views must survive a move
  CHECK(file.stamp() == io::section_stamp{3, 40, CAUSEWAY_VERSION});
  REQUIRE(file.sections().size() == 3);
  CHECK(file.sections()[1].name == "empty");
  CHECK(file.sections()[1].bytes.empty());
  CHECK(file.find("rng").value().version == 3);
  CHECK(file.find("rng").value().bytes.size() == 70);
  std::vector<float> read(3);
  REQUIRE(file.copy_to<float>("model", read));
  CHECK(read == weights);
}

TEST_CASE("section file: a file without sections is one", "[io][fast]") {
  CHECK(io::section_file::parse(file_of({}), "x").value().sections().empty());
}

TEST_CASE("section file: every single flipped bit is detected", "[io][fast]") {
  const io::byte_vector good = example();
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    io::byte_vector bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto file = io::section_file::parse(std::move(bad), "x");
    INFO("bit " << bit);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == cw::errc::corrupt);
  }
}

TEST_CASE("section file: every prefix, and every longer file, is detected", "[io][fast]") {
  const io::byte_vector good = example();
  for (std::size_t length = 0; length < good.size(); ++length) {
    INFO("length " << length);
    const auto file = io::section_file::parse({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}, "x");
    REQUIRE_FALSE(file);
    CHECK(file.error().code == cw::errc::corrupt);
  }
  const auto torn = io::section_file::parse({good.begin(), good.end() - 1}, "x");
  CHECK(torn.error().message.find(std::to_string(good.size() - 1) + " bytes of " + std::to_string(good.size())) !=
        std::string::npos);
  io::byte_vector longer = good;
  longer.push_back(std::byte{0});
  CHECK_FALSE(io::section_file::parse(std::move(longer), "x"));
}

TEST_CASE("section file: blocks that were never written, or swapped, are detected", "[io][fast]") {
  std::vector<float> many(4096);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i);
  const io::byte_vector good = file_of({io::section::of<float>("model", 1, many)});
  constexpr std::size_t block = 512;
  for (std::size_t at = 0; at + 2 * block <= good.size(); at += block) {
    io::byte_vector zeroed = good;
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(at), block, std::byte{0});
    CHECK_FALSE(io::section_file::parse(std::move(zeroed), "x"));
    io::byte_vector swapped = good;
    const auto first = swapped.begin() + static_cast<std::ptrdiff_t>(at);
    std::swap_ranges(first, first + block, first + block);
    CHECK_FALSE(io::section_file::parse(std::move(swapped), "x"));
  }
}

TEST_CASE("section file: an offset that is not the next one is refused even under a right checksum", "[io][fast]") {
  // Equal sections, so that the checksum of another section's place would fit too.
  const io::byte_vector same(64, std::byte{9});
  const io::byte_vector good = file_of({{"a", 1, same}, {"b", 1, same}, {"c", 1, same}});
  constexpr std::size_t entry = 32 + 1;
  for (std::size_t which = 0; which < 3; ++which) {
    const std::size_t field = 48 + which * entry;
    std::uint64_t right = 0;
    std::memcpy(&right, good.data() + field, 8);
    for (const std::uint64_t wrong : {right - 64, right + 64, right + 1, std::uint64_t{0}, ~std::uint64_t{63}}) {
      io::byte_vector bad = good;
      std::memcpy(bad.data() + field, &wrong, 8);
      sign_header(bad);
      CHECK_FALSE(io::section_file::parse(std::move(bad), "x"));
    }
  }
}

TEST_CASE("section file: bytes that no section covers are refused even under a right checksum", "[io][fast]") {
  io::byte_vector bad = example();
  bad.push_back(std::byte{1});
  const std::uint64_t length = bad.size();
  std::memcpy(bad.data() + 32, &length, 8);
  sign_header(bad);
  const auto file = io::section_file::parse(std::move(bad), "x");
  REQUIRE_FALSE(file);
  CHECK(file.error().message.find("does not cover") != std::string::npos);
}

TEST_CASE("section file: lengths that lie are refused even under a right checksum", "[io][fast]") {
  cw::rng random{7};
  int refused = 0;
  constexpr int tries = 4000;
  for (int i = 0; i < tries; ++i) {
    io::byte_vector bad = example();
    const io::byte_vector good = bad;
    const std::size_t at = 12 + random.below(150);  // counts, lengths, offsets, names
    const std::uint64_t value = random.below(2) == 0 ? random.next() : random.below(300);
    std::memcpy(bad.data() + at, &value, 1 + random.below(8));
    std::uint32_t length = 0;
    std::memcpy(&length, bad.data() + 40, 4);
    if (length < 56 || length > bad.size()) continue;
    sign_header(bad);
    // The sanitizers see to it that no lie makes the reader leave the buffer.
    refused += io::section_file::parse(std::move(bad), "x") ? 0 : 1;
  }
  CHECK(refused > tries / 4);
}

TEST_CASE("section file: another format is a version mismatch that names both", "[io][fast]") {
  io::byte_vector newer = example();
  newer[8] = std::byte{2};
  sign_header(newer);
  const auto file = io::section_file::parse(std::move(newer), "x.ckpt");
  REQUIRE_FALSE(file);
  CHECK(file.error().code == cw::errc::version_mismatch);
  CHECK(file.error().message.find("format 2") != std::string::npos);
  CHECK(file.error().message.find("reads format 1") != std::string::npos);
}

TEST_CASE("section file: missing, unknown and newer sections are errors that list both sides", "[io][fast]") {
  const auto file = io::section_file::parse(example(), "x.ckpt").value();
  using wanted = std::vector<io::wanted_section>;
  CHECK(file.match(wanted{{"rng", 3}, {"empty", 9}, {"model", 1}}));  // any order, older versions pass

  const auto missing = file.match(wanted{{"rng", 3}, {"empty", 2}, {"model", 1}, {"muon", 1}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == cw::errc::wrong_model);
  CHECK(missing.error().message.find("model v1, empty v2, rng v3") != std::string::npos);
  CHECK(missing.error().message.find("muon v1") != std::string::npos);

  CHECK(file.match(wanted{{"rng", 3}, {"model", 1}}).error().code == cw::errc::wrong_model);
  CHECK(file.match(wanted{}).error().code == cw::errc::wrong_model);
  CHECK(file.match(wanted{{"rng", 2}, {"empty", 2}, {"model", 1}}).error().code == cw::errc::version_mismatch);
}

TEST_CASE("section file: a section of another length or name is an error that says which", "[io][fast]") {
  const auto file = io::section_file::parse(example(), "x.ckpt").value();
  std::vector<float> four(4);
  const auto wrong = file.copy_to<float>("model", four);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == cw::errc::wrong_model);
  CHECK(wrong.error().message.find("12 bytes, this model needs 16") != std::string::npos);
  CHECK(file.find("nothing").error().code == cw::errc::not_found);
}
