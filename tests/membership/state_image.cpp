// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/state_image.hpp>

#include <causeway/core/rng.hpp>

#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

enum class color : std::uint8_t { red, green };

struct optimizer {
  std::vector<float> momentum = std::vector<float>(50);
  std::uint64_t steps = 3;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(momentum, steps);
  }
};

struct shared {
  std::vector<float> parameters = std::vector<float>(100, 0.5F);
  optimizer outer;
  std::vector<optimizer> more = std::vector<optimizer>(2);
  bool started = true;
  color paint = color::green;
  std::string name = "run";

  template <class Archive>
  void serialize(Archive& ar) {
    ar(parameters, outer, more, started, paint, name);
  }
};

struct pair_of_ints {
  std::int32_t a = 1;
  std::int32_t b = 2;
};

// Parts of random sizes, empty ones too.
std::vector<std::vector<std::byte>> random_parts(rng& random, std::size_t largest) {
  std::vector<std::vector<std::byte>> parts(1 + random.below(12));
  for (auto& part : parts) {
    part.resize(random.below(4) == 0 ? 0 : random.below(largest));
    for (std::byte& b : part) b = static_cast<std::byte>(random.next());
  }
  return parts;
}

state_image image_of(std::vector<std::vector<std::byte>>& parts, std::uint32_t chunk_bytes) {
  state_image image{chunk_bytes};
  for (auto& part : parts) image.add(part);
  return image;
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("state image: an archive finds the memory of numbers, vectors, text and nested objects", "[membership][fast]") {
  shared s;
  std::vector<pair_of_ints> pairs(3);
  image_collector all;
  all(s, pairs);
  std::vector<std::size_t> sizes;
  for (const auto part : all.parts()) sizes.push_back(part.size());
  CHECK(sizes == std::vector<std::size_t>{400, 200, 8, 200, 8, 200, 8, 1, 1, 3, 24});
  CHECK(all.parts()[0].data() == static_cast<void*>(s.parameters.data()));
  CHECK(all.parts()[2].data() == static_cast<void*>(&s.outer.steps));
  CHECK(state_image::of(s, pairs).bytes() == 1053);
}

TEST_CASE("state image: an archive keeps what is a peer's own apart", "[membership][fast]") {
  std::vector<float> shared_values(10), own_values(20);
  std::uint64_t number = 0;
  image_collector all;
  all(shared_values);
  all.own(number);
  all.own(std::span{own_values});
  all(number);
  REQUIRE(all.parts().size() == 2);
  REQUIRE(all.own_parts().size() == 2);
  CHECK(all.own_parts()[0].size() == sizeof number);
  CHECK(all.own_parts()[1].data() == static_cast<void*>(own_values.data()));
}

TEST_CASE("state image: the root is that of equal contents, elsewhere and cut by another allocation",
          "[membership][fast]") {
  shared one;
  shared two;
  const auto root = state_image::of(one).root();
  CHECK(state_image::of(two).root() == root);
  two.more[1].momentum[7] = 1.0F;
  CHECK(state_image::of(two).root() != root);
  two = one;
  two.paint = color::red;
  CHECK(state_image::of(two).root() != root);
  two = one;
  two.name = "ruN";
  CHECK(state_image::of(two).root() != root);
}

TEST_CASE("state image: the root of a state is part of what peers of different builds agree on", "[membership][fast]") {
  std::vector<std::uint32_t> values(200'000);
  std::iota(values.begin(), values.end(), 0U);
  std::uint64_t counter = 42;
  CHECK(state_image::of(values, counter).root() == 0x3C2A69ACAB1F2205U);
}

TEST_CASE("state image: the layout is in the root, also where the bytes in a row are the same", "[membership][fast]") {
  std::vector<std::byte> bytes(1000, std::byte{7});
  const std::span all{bytes};
  std::set<std::uint64_t> roots;
  for (const std::size_t first : {0U, 1U, 500U, 999U, 1000U}) {
    state_image image{64};
    image.add(all.first(first));
    image.add(all.subspan(first));
    roots.insert(image.root());
  }
  state_image whole{64};
  whole.add(all);
  roots.insert(whole.root());
  state_image coarse{128};
  coarse.add(all);
  roots.insert(coarse.root());
  CHECK(roots.size() == 7);
}

TEST_CASE("state image: hashes do not depend on threads, nor on how memory is cut into parts", "[membership][fast]") {
  rng random{1};
  thread_pool pool{2};
  for (int i = 0; i < 50; ++i) {
    auto parts = random_parts(random, 3000);
    std::vector<std::vector<std::byte>> row;
    row.push_back(joined(parts));
    const auto image = image_of(parts, 256);
    const auto same = image_of(parts, 256);
    CHECK(image.root() == same.root(&pool));
    CHECK(image.hashes() == image_of(row, 256).hashes());
  }
}

TEST_CASE("state image: every flipped byte changes the hash of its chunk, of no other, and the root",
          "[membership][fast]") {
  rng random{2};
  auto parts = random_parts(random, 300);
  auto image = image_of(parts, 64);
  const auto before = image.hashes();
  const auto root = image.root();
  std::size_t at = 0;
  for (auto& part : parts) {
    for (std::byte& b : part) {
      const std::byte original = b;
      b ^= static_cast<std::byte>(1U << random.below(8));
      image.touch();
      const auto& after = image.hashes();
      for (std::size_t c = 0; c < after.size(); ++c) REQUIRE((after[c] != before[c]) == (c == at / 64));
      REQUIRE(image.root() != root);
      b = original;
      ++at;
    }
  }
  CHECK(at == image.bytes());
}

TEST_CASE("state image: hashes are kept until the memory was touched", "[membership][fast]") {
  std::vector<std::uint64_t> values(1000);
  auto image = state_image::of(values);
  const auto root = image.root();
  values[3] = 1;
  CHECK(image.root() == root);
  image.touch();
  CHECK(image.root() != root);
}

TEST_CASE("state image: chunks are read and written across parts", "[membership][fast]") {
  rng random{3};
  for (int i = 0; i < 50; ++i) {
    auto from = random_parts(random, 500);
    auto to = from;
    for (auto& part : to) std::fill(part.begin(), part.end(), std::byte{0});
    const auto source = image_of(from, 64);
    auto target = image_of(to, 64);
    const auto row = joined(from);
    for (std::size_t c = 0; c < source.chunks(); ++c) {
      std::vector<std::byte> chunk(source.chunk_size(c));
      source.read(c, chunk);
      REQUIRE(std::equal(chunk.begin(), chunk.end(), row.begin() + static_cast<std::ptrdiff_t>(64 * c)));
      target.write(c, chunk);
    }
    target.touch();
    REQUIRE(to == from);
    REQUIRE(target.root() == source.root());
  }
}

TEST_CASE("state image: a part may lie elsewhere for a while, with the hashes that it had", "[membership][fast]") {
  std::vector<float> first(100, 1.0F), second(50, 2.0F);
  state_image image = state_image::of(first, second);
  const std::uint64_t root = image.root();
  std::vector<float> copy = first;
  image.lies_at(0, std::as_writable_bytes(std::span{copy}));
  first[3] = 7;
  std::vector<float> out(150);
  image.read(0, std::as_writable_bytes(std::span{out}));
  CHECK(out[3] == 1);
  CHECK(out[100] == 2);
  image.touch();
  CHECK(image.root() == root);
  image.lies_at(0, std::as_writable_bytes(std::span{first}));
  image.read(0, std::as_writable_bytes(std::span{out}));
  CHECK(out[3] == 7);
}

TEST_CASE("state image: an empty state has a root", "[membership][fast]") {
  std::vector<float> none;
  auto image = state_image::of(none);
  CHECK(image.chunks() == 0);
  CHECK(image.root() == state_image::of(none).root());
  CHECK(image.root() != state_image{}.root());
}

TEST_CASE("state image: another layout is refused with the sizes of both sides", "[membership][fast]") {
  const image_layout ours{64, {100, 8}};
  const image_layout theirs{64, {100, 16}};
  CHECK(check_layout(ours, ours).has_value());
  const auto refused = check_layout(ours, theirs);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::wrong_model);
  for (const auto* part : {"108 bytes", "116 bytes", "part 1 has 8 bytes here and 16 there"}) {
    CHECK(refused.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("staging: nothing of the image changes before the commit, and all of it then", "[membership][fast]") {
  rng random{4};
  auto here = random_parts(random, 2000);
  auto there = here;
  for (auto& part : there) {
    for (std::byte& b : part) {
      if (random.below(100) == 0) b ^= std::byte{1};
    }
  }
  const auto before = here;
  auto image = image_of(here, 64);
  const auto goal = image_of(there, 64);
  staging staged{image.layout()};
  for (std::size_t c = 0; c < image.chunks(); ++c) {
    if (image.chunk_hash(c) == goal.chunk_hash(c)) continue;
    std::vector<std::byte> chunk(goal.chunk_size(c));
    goal.read(c, chunk);
    staged.put(c, chunk);
  }
  CHECK(staged.chunks_held() > 0);
  CHECK(staged.chunks_held() < image.chunks());
  CHECK(here == before);
  REQUIRE(staged.commit(image, goal.root()));
  CHECK(here == there);
  CHECK(staged.chunks_held() == 0);
}

TEST_CASE("staging: a state that was changed under a fetch is noticed", "[membership][fast]") {
  std::vector<std::uint64_t> values(100);
  auto image = state_image::of(values);
  const auto root = image.root();
  staging staged{image.layout()};
  values[5] = 1;
  CHECK(staged.commit(image, root).error().code == errc::diverged);
}
