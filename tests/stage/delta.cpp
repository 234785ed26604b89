// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/delta.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/io/archive.hpp>

#include <numeric>

using namespace causeway;
using namespace activation_checks;
using compress::none;
using stage::delta;

static_assert(delta<>::name == "delta<bits4,bits8,fp16>");
static_assert(delta<>::traits.stateful && delta<>::traits.needs_samples && !delta<>::traits.exact);

namespace {

constexpr std::int64_t tokens = 3, width = 48;

struct batch_of {
  std::vector<std::uint64_t> ids;
  crossing c;

  batch_of(std::vector<std::uint64_t> samples, std::uint64_t seed, direction way = direction::forward)
      : ids{std::move(samples)},
        c{.edge = 2,
          .way = way,
          .rows = static_cast<std::int64_t>(ids.size()) * tokens,
          .width = width,
          .sequences = static_cast<std::int64_t>(ids.size()),
          .samples = ids,
          .seed = seed} {}
};

template <class D>
io::byte_vector state(const D& codec) {
  auto bytes = io::to_bytes(codec);
  REQUIRE(bytes);
  return *bytes;
}

/// Activations of samples that move slowly: what a training run has.
std::vector<float> activations(const batch_of& b, int epoch) {
  std::vector<float> all;
  for (const std::uint64_t id : b.ids) {
    const auto start = normal(tokens * width, 100 + id), drift = normal(tokens * width, 5000 + id);
    for (std::size_t i = 0; i < start.size(); ++i) {
      all.push_back(start[i] + drift[i] * 0.5F * (1.0F - std::pow(0.5F, static_cast<float>(epoch))));
    }
  }
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i] - b[i]), 2);
  return std::sqrt(sum);
}

template <class D>
std::vector<float> send(D& from, D& to, const batch_of& b, const std::vector<float>& values, unsigned threads = 1) {
  thread_pool pool{threads};
  return decode(to, pool, b.c, encode(from, pool, b.c, values));
}

template <class D>
void commit(D& a, D& b) {
  REQUIRE(a.commit_step());
  REQUIRE(b.commit_step());
  REQUIRE(state(a) == state(b));
}

}  // namespace

TEST_CASE("delta: whole at the first visit, a few bits a value later", "[stage][fast]") {
  thread_pool pool{1};
  delta<> sender, receiver;
  const batch_of b{{7, 9}, 1};
  const auto values = activations(b, 0);
  auto bytes = encode(sender, pool, b.c, values);
  REQUIRE(bytes.size() == 2 * (4 + tokens * width * 2));
  REQUIRE(bytes.size() == sender.most_bytes(b.c));
  const auto first = decode(receiver, pool, b.c, bytes);
  for (std::size_t i = 0; i < values.size(); ++i)
    REQUIRE(std::abs(first[i] - values[i]) <= 0x1p-11F * std::abs(values[i]) + 1e-7F);
  commit(sender, receiver);
  bytes = encode(sender, pool, b.c, values);
  REQUIRE(bytes.size() == 2 * (4 + tokens * (4 + width / 2)));
  const batch_of mixed{{9, 11}, 2};
  REQUIRE(encode(sender, pool, mixed.c, activations(mixed, 1)).size() ==
          2 * 4 + tokens * (4 + width / 2) + tokens * width * 2);
}

TEMPLATE_TEST_CASE_SIG("delta: the error of what stays the same shrinks by 2^B - 2 a visit", "[stage][fast]",
                       ((unsigned B), B), 2, 3, 4) {
  delta<B, 8, none> sender, receiver;
  const batch_of b{{1}, 1};
  send(sender, receiver, b, normal(b.c.count(), 1));
  commit(sender, receiver);
  const auto target = normal(b.c.count(), 2, 10);
  std::vector<float> bound(tokens), before = normal(b.c.count(), 1);
  for (std::size_t i = 0; i < target.size(); ++i) {
    bound[i / width] = std::max(bound[i / width], std::abs(target[i] - before[i]));
  }
  for (int visit = 1; visit <= 4; ++visit) {
    const auto got = send(sender, receiver, b, target);
    commit(sender, receiver);
    for (float& most : bound) most /= B == 2 ? 3.0F : static_cast<float>((1U << B) - 2);
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - target[i]) <= bound[i / width] * 1.001F + 1e-5F);
  }
}

TEST_CASE("delta: as activations settle, far closer than quantising them directly", "[stage][fast]") {
  delta<4> sender, receiver;
  delta<2> coarse, coarse_receiver;
  stage::coded<compress::bits<4>> direct;
  thread_pool pool{1};
  const batch_of b{{1, 2, 3}, 1};
  double by_delta = 0, by_coarse = 0, directly = 0;
  for (int epoch = 0; epoch < 12; ++epoch) {
    const auto values = activations(b, epoch);
    by_delta = distance(send(sender, receiver, b, values), values);
    by_coarse = distance(send(coarse, coarse_receiver, b, values), values);
    commit(sender, receiver);
    commit(coarse, coarse_receiver);
    directly = distance(decode(direct, pool, b.c, encode(direct, pool, b.c, values)), values);
  }
  REQUIRE(by_delta < directly / 100);
  REQUIRE(by_coarse < directly / 20);
}

TEST_CASE("delta: both sides stay the same through retries, lost steps and a checkpoint", "[stage][fast]") {
  delta<3, 8, compress::block_int8> sender, receiver, quiet_sender, quiet_receiver;
  rng draw{3};
  for (int step = 0; step < 40; ++step) {
    const batch_of a{{draw.below(6), 6 + draw.below(6)}, 2 * static_cast<std::uint64_t>(step) + 1};
    const batch_of b{{draw.below(6), 12 + draw.below(6)}, 2 * static_cast<std::uint64_t>(step) + 2};
    const auto of_a = activations(a, step / 4), of_b = activations(b, step / 4);
    send(quiet_sender, quiet_receiver, a, of_a);
    send(quiet_sender, quiet_receiver, b, of_b);
    commit(quiet_sender, quiet_receiver);

    if (step % 3 == 0) {  // an attempt that sent other values and was lost half way
      send(sender, receiver, a, normal(of_a.size(), draw.next()));
      thread_pool pool{1};
      encode(sender, pool, b.c, of_b);
      const batch_of lost{{50 + draw.below(20)}, 9};  // a sample that the attempt that counts does not have
      send(sender, receiver, lost, activations(lost, 0));
      sender.begin_step();
      receiver.begin_step();
    }
    if (step % 4 == 1) send(sender, receiver, b, normal(of_b.size(), draw.next()));  // sent again below
    send(sender, receiver, a, of_a, 2);
    send(sender, receiver, b, of_b);
    commit(sender, receiver);
    REQUIRE(state(sender) == state(quiet_sender));

    if (step == 20) {
      delta<3, 8, compress::block_int8> loaded_sender, loaded_receiver;
      REQUIRE(io::from_bytes(state(sender), loaded_sender));
      REQUIRE(io::from_bytes(state(receiver), loaded_receiver));
      sender = std::move(loaded_sender);
      receiver = std::move(loaded_receiver);
    }
  }
  REQUIRE(sender.buffers().size() > 12);
}

TEST_CASE("delta: messages of a step may arrive in another order than they were sent", "[stage][fast]") {
  thread_pool pool{1};
  delta<> sender, receiver;
  for (int step = 0; step < 3; ++step) {
    const batch_of a{{5, 5}, 20}, b{{5, 8}, 10};  // sample 5 three times
    const auto first = encode(sender, pool, a.c, normal(a.c.count(), static_cast<std::uint64_t>(step)));
    const auto second = encode(sender, pool, b.c, normal(b.c.count(), 50 + static_cast<std::uint64_t>(step)));
    decode(receiver, pool, b.c, second);
    decode(receiver, pool, a.c, first);
    commit(sender, receiver);
  }
}

TEST_CASE("delta: the same call again within a step gives the same bytes", "[stage][fast]") {
  thread_pool one{1}, three{3};
  delta<4> sender{{.rows = {.stochastic = true}}}, receiver{{.rows = {.stochastic = true}}};
  for (int step = 0; step < 2; ++step) {
    const batch_of b{{1, 2}, 4};
    const auto values = activations(b, step);
    const auto bytes = encode(sender, one, b.c, values);
    REQUIRE(encode(sender, three, b.c, values) == bytes);
    REQUIRE(same_bits(decode(receiver, one, b.c, bytes), decode(receiver, three, b.c, bytes)));
    commit(sender, receiver);
  }
}

TEST_CASE("delta: gradients are quantised directly, and change nothing that is remembered", "[stage][fast]") {
  thread_pool pool{1};
  delta<4, 8> sender, receiver;
  const batch_of b{{1, 2}, 4, direction::backward};
  const auto values = normal(b.c.count(), 8);
  const auto before = state(sender);
  const auto bytes = encode(sender, pool, b.c, values);
  REQUIRE(bytes.size() == 2 * tokens * (4 + width));
  const auto got = decode(receiver, pool, b.c, bytes);
  REQUIRE(distance(got, values) < 0.01 * distance(values, std::vector<float>(values.size())));
  commit(sender, receiver);
  REQUIRE(state(sender) == before);
}

TEST_CASE("delta: samples without ids are an error that says what to do", "[stage][fast]") {
  thread_pool pool{1};
  delta<> codec;
  batch_of b{{1, 2}, 1};
  b.c.samples = {};
  std::vector<std::byte> room(codec.most_bytes(b.c));
  const auto outcome = codec.encode(pool, b.c, normal(b.c.count(), 1), room);
  REQUIRE(outcome.error().code == errc::invalid_argument);
  REQUIRE(outcome.error().message.find("ids") != std::string::npos);
  b.c.way = direction::backward;  // needs none
  REQUIRE(codec.encode(pool, b.c, normal(b.c.count(), 1), room));
}

TEST_CASE("delta: the limit counts what the step adds, and says how many samples fit", "[stage][fast]") {
  thread_pool pool{1};
  constexpr std::size_t each = tokens * width * 2;
  delta<> sender{{.memory_limit = 3 * each + 10}}, receiver;
  const batch_of a{{1, 2}, 1}, b{{2, 3}, 2}, d{{4}, 3};
  send(sender, receiver, a, activations(a, 0));
  send(sender, receiver, a, activations(a, 0));  // again: counted once
  send(sender, receiver, b, activations(b, 0));
  std::vector<std::byte> room(sender.most_bytes(d.c));
  for (const bool committed : {false, true}) {
    if (committed) commit(sender, receiver);
    const auto outcome = sender.encode(pool, d.c, activations(d, 0), room);
    REQUIRE(outcome.error().code == errc::out_of_memory);
    REQUIRE(outcome.error().message.find(": 3 of this length fit") != std::string::npos);
  }
  REQUIRE(sender.buffers().bytes() == 3 * each);
  send(sender, receiver, b, activations(b, 1));  // known samples still pass
}

TEST_CASE("delta: a sample of another length is refused", "[stage][fast]") {
  thread_pool pool{1};
  delta<> sender, receiver;
  const batch_of b{{1}, 1};
  send(sender, receiver, b, activations(b, 0));
  commit(sender, receiver);
  batch_of longer{{1}, 2};
  longer.c.rows = 5;
  std::vector<std::byte> room(sender.most_bytes(longer.c));
  REQUIRE(sender.encode(pool, longer.c, normal(longer.c.count(), 1), room).error().code == errc::invalid_argument);
}

TEST_CASE("delta: a side that lost its buffers is noticed, and forgetting on both sides mends it", "[stage][fast]") {
  thread_pool pool{1};
  delta<> sender, receiver, replaced;
  const batch_of b{{1, 2}, 1};
  send(sender, receiver, b, activations(b, 0));
  commit(sender, receiver);
  const auto bytes = encode(sender, pool, b.c, activations(b, 1));
  REQUIRE(decode_error(replaced, b.c, bytes) == errc::diverged);
  REQUIRE(replaced.commit_step());
  REQUIRE(replaced.buffers().size() == 0);
  const auto from_new = encode(replaced, pool, b.c, activations(b, 1));
  REQUIRE(decode_error(receiver, b.c, from_new) == errc::diverged);
  sender.begin_step();
  sender.forget(2);
  REQUIRE(sender.buffers().bytes() == 0);
  send(sender, replaced, b, activations(b, 1));
  commit(sender, replaced);
}

TEST_CASE("delta: what is not finite fails at the sender and is not remembered", "[stage][fast]") {
  thread_pool pool{1};
  const batch_of b{{1, 2}, 1};
  const auto values = activations(b, 0);
  check_non_finite([] { return delta<>{}; }, b.c, values);
  check_non_finite([] { return delta<4, 4, none>{}; }, b.c, values);
  const batch_of back{{1, 2}, 1, direction::backward};
  check_non_finite([] { return delta<>{}; }, back.c, values);
  delta<> sender, receiver;
  send(sender, receiver, b, values);
  commit(sender, receiver);
  auto bad = activations(b, 1);
  for (const float v : {std::nanf(""), 1e6F}) {  // the second is too large for fp16 buffers
    bad[200] = v;
    std::vector<std::byte> room(sender.most_bytes(b.c));
    REQUIRE(sender.encode(pool, b.c, bad, room).error().code == errc::non_finite);
  }
  commit(sender, receiver);
}

TEST_CASE("delta: the same bits for every thread count", "[stage][fast]") {
  std::vector<std::uint64_t> ids(4);
  std::iota(ids.begin(), ids.end(), 0);
  const crossing large{.rows = 64, .width = 512, .sequences = 4, .samples = ids, .seed = 7};
  const auto values = normal(large.count(), 3), later = normal(large.count(), 4);
  const auto visited = [&] {
    thread_pool pool{1};
    delta<> codec;
    encode(codec, pool, large, values);
    REQUIRE(codec.commit_step());
    return codec;
  };
  check_threads([] { return delta<4, 8, compress::bf16>{}; }, large, values);
  check_threads(visited, large, later);
}

TEST_CASE("delta: hostile bytes give errors or finite values, at every visit", "[stage][fast]") {
  const batch_of b{{1, 2}, 1}, back{{1, 2}, 1, direction::backward};
  const auto values = activations(b, 0);
  const auto visited = [&] {
    thread_pool pool{1};
    delta<3> codec;
    encode(codec, pool, b.c, values);
    REQUIRE(codec.commit_step());
    return codec;
  };
  check_hostile_bytes([] { return delta<>{}; }, b.c, values);
  check_hostile_bytes([] { return delta<4, 8, compress::block_int8>{}; }, b.c, values);
  check_hostile_bytes(visited, b.c, activations(b, 1));
  check_hostile_bytes([] { return delta<>{}; }, back.c, values);

  thread_pool pool{1};
  auto sender = visited(), receiver = visited();
  auto bytes = encode(sender, pool, b.c, activations(b, 1));
  const float scale = 3e38F;  // a change that takes the buffer beyond what it can hold
  std::memcpy(bytes.data() + 8, &scale, 4);
  REQUIRE(decode_error(receiver, b.c, bytes) == errc::non_finite);
  REQUIRE(receiver.commit_step());
  REQUIRE(state(receiver) == state(visited()));
}

TEST_CASE("delta: bytes between two sequences are zero or corrupt", "[stage][fast]") {
  thread_pool pool{1};
  const std::vector<std::uint64_t> ids{1, 2};
  const crossing odd{.rows = 2, .width = 33, .sequences = 2, .samples = ids, .seed = 7};  // 66 bytes, padded to 68
  delta<> sender, receiver;
  auto bytes = encode(sender, pool, odd, normal(66, 1));
  REQUIRE(bytes.size() == 8 + 2 * 68);
  bytes[8 + 67] = std::byte{1};
  REQUIRE(decode_error(receiver, odd, bytes) == errc::corrupt);
}
