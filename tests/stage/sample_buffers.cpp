// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/sample_buffers.hpp>

#include "support/catch.hpp"

#include <causeway/io/archive.hpp>

using namespace causeway;
using stage::sample_buffer;
using stage::sample_buffers;

namespace {

sample_buffer buffer(std::vector<std::uint8_t> bytes) {
  sample_buffer b{std::move(bytes)};
  b.seal();
  return b;
}

std::vector<std::uint8_t> content(const sample_buffers& buffers, const stage::sample_key& key) {
  const auto* const found = buffers.find(key);
  return found == nullptr ? std::vector<std::uint8_t>{} : found->bytes;
}

}  // namespace

TEST_CASE("sample_buffers: nothing changes before the commit, and nothing if it never comes", "[stage][fast]") {
  sample_buffers all;
  all.stage({1, 5}, buffer({1, 2}), 9, 0);
  REQUIRE(all.find({1, 5}) == nullptr);
  REQUIRE(all.knows({1, 5}));
  REQUIRE(all.bytes_after_step() == 2);
  all.forget_staged();
  all.commit();
  REQUIRE(all.size() == 0);
  all.stage({1, 5}, buffer({1, 2}), 9, 0);
  all.commit();
  all.stage({1, 5}, buffer({3, 4}), 10, 0);
  REQUIRE(content(all, {1, 5}) == std::vector<std::uint8_t>{1, 2});
  REQUIRE(all.bytes_after_step() == 2);
  all.commit();
  REQUIRE(content(all, {1, 5}) == std::vector<std::uint8_t>{3, 4});
  REQUIRE(all.bytes() == 2);
}

TEST_CASE("sample_buffers: the larger seed counts whatever the order, then the later place, then the later call",
          "[stage][fast]") {
  for (const bool turned : {false, true}) {
    sample_buffers all;
    all.stage({0, 1}, buffer({turned ? std::uint8_t{2} : std::uint8_t{1}}), turned ? 2 : 1, 0);
    all.stage({0, 1}, buffer({turned ? std::uint8_t{1} : std::uint8_t{2}}), turned ? 1 : 2, 0);
    all.commit();
    REQUIRE(content(all, {0, 1}) == std::vector<std::uint8_t>{2});
  }
  sample_buffers all;
  all.stage({0, 1}, buffer({1}), 3, 0);
  all.stage({0, 1}, buffer({2}), 3, 4);
  all.stage({0, 1}, buffer({3}), 3, 0);  // the message again
  all.stage({0, 1}, buffer({4}), 3, 4);
  all.commit();
  REQUIRE(content(all, {0, 1}) == std::vector<std::uint8_t>{4});
}

TEST_CASE("sample_buffers: an edge can be forgotten, and bytes are counted", "[stage][fast]") {
  sample_buffers all;
  for (std::uint64_t i = 0; i < 4; ++i) all.stage({static_cast<std::uint32_t>(i % 2), i}, buffer({1, 2, 3}), 1, i);
  all.commit();
  REQUIRE(all.bytes() == 12);
  all.forget(0);
  REQUIRE(all.size() == 2);
  REQUIRE(all.bytes() == 6);
  REQUIRE(all.find({0, 2}) == nullptr);
  REQUIRE(all.find({1, 3}) != nullptr);
}

TEST_CASE("sample_buffers: saved and loaded without what is staged", "[stage][fast]") {
  sample_buffers all, back;
  all.stage({1, 5}, buffer({1, 2}), 9, 0);
  all.commit();
  all.stage({1, 6}, buffer({7}), 9, 0);
  const auto bytes = io::to_bytes(all);
  REQUIRE(bytes);
  REQUIRE(io::from_bytes(*bytes, back));
  REQUIRE(back.size() == 1);
  REQUIRE(back.bytes() == 2);
  REQUIRE(back.find({1, 5})->tag == all.find({1, 5})->tag);
  REQUIRE(all.find({1, 5})->tag != buffer({1, 3}).tag);
}
