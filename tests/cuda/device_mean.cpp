// SPDX-License-Identifier: Apache-2.0
// Means of sparse messages among peers with and without a device: what crosses to the host, and that nobody can tell by the
// bits.
#include <causeway/collective/gather_mean.hpp>
#include <causeway/cuda/codec.hpp>

#include "collective/exchange_cases.hpp"
#include "cuda/host_engine.hpp"
#include "cuda/sparse_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace causeway;
using namespace causeway_test;
using namespace causeway_test::sparse_case;
using cases::side;

static_assert(collective::RowCodec<cuda::codec<compress::sparse<compress::dct_tiles, compress::top_k, compress::none>>>);

struct outcome {
  std::vector<float> mean, left, counts;  ///< of the counts those that an exchange is to fill
};

/// Rows in the memory of what the codec computes with, `report` of which is told what crosses during the exchange.
template <class Aggregation, class Codec, class Row>
result<void> exchange_rows(side& s, const Codec& codec, Row values, Row left, outcome& o, queue_report* report) {
  auto ctx = context(s.pool);
  ctx.own_seed += s.self;
  collective::gather_mean<Codec, Aggregation> exchange{codec};
  const bool watches = report != nullptr && report->migrates;  // one at a time
  if (watches) report->pages.watch(true);
  const auto done = run_exchange(exchange, s.port(), {.values = values, .residual = left, .counts = o.counts}, ctx);
  if (watches) report->pages.watch(false);
  o.mean.assign(values.begin(), values.end());
  o.left.assign(left.begin(), left.end());
  return done;
}

std::vector<float> own_values(const side& s) { return numbers(n, 20 + s.self); }

template <class Aggregation, class Codec>
result<void> exchange_here(side& s, const Codec& how, outcome& o) {
  return exchange_rows<Aggregation>(s, how, own_values(s), std::vector<float>(n), o, nullptr);
}
template <class Aggregation, class Codec>
result<void> exchange_there(side& s, const Codec& how, outcome& o, const std::shared_ptr<queue_report>& report) {
  const auto engine = engine_on_host(report);
  const row left = row_there(*engine, std::vector<float>(n));
  const cuda::codec codec{engine, how};
  return exchange_rows<Aggregation>(s, codec, row_there(*engine, own_values(s)), left, o, report.get());
}

/// Bytes that another peer's queue must not have to move: those of a random_k's seed.
template <class Choice>
constexpr std::size_t seed_bytes = 0;
template <>
constexpr std::size_t seed_bytes<compress::random_k> = 8;
template <class Inner>
constexpr std::size_t seed_bytes<compress::stacked<compress::random_k, Inner>> = 8;

/// Two peers with devices, the memory of one migrating, and one without.
template <class Aggregation, class Codec>
void compare_means(const Codec& how) {
  INFO(std::string{how.name} << ", " << Aggregation::name);
  constexpr std::uint32_t size = 3;
  const auto report = std::make_shared<queue_report>();
  report->migrates = true;
  std::vector<outcome> mixed(size), plain(size);
  const net::memory_network first{size}, second{size};
  REQUIRE(peer_threads::all_succeeded(
      cases::run_sides(first, [&](side& s) { return exchange_here<Aggregation>(s, how, plain[s.self]); })));
  REQUIRE(peer_threads::all_succeeded(cases::run_sides(second, [&](side& s) {
    if (s.self == 2) return exchange_here<Aggregation>(s, how, mixed[2]);
    return exchange_there<Aggregation>(s, how, mixed[s.self], s.self == 0 ? report : std::make_shared<queue_report>());
  })));
  for (std::uint32_t p = 0; p < size; ++p) {
    CHECK(same(mixed[p].mean, plain[p].mean));
    CHECK(same(mixed[p].left, plain[p].left));
  }
  CHECK(same(mixed[0].mean, mixed[2].mean));

  thread_pool pool{1};
  const std::size_t message = how.most_bytes(context(pool), n) - seed_bytes<std::remove_cvref_t<decltype(how.choice())>>;
  CHECK(report->out == message + (size + 1) * 4);  // a word for each message that is added, and one for the mean
  std::size_t bases = 0;
  if constexpr (Codec::traits.transform) {
    std::vector<bool> sides(65);
    for (const auto& grid : compress::cut_into_chunks(how.basis().chunks(), matrices, n)) {
      sides[grid.columns] = true;
      if (grid.rows > 1) sides[grid.rows] = true;
    }
    bases = static_cast<std::size_t>(std::count(sides.begin(), sides.end(), true)) * 2 * 64 * 64 * 4;
  }
  CHECK(report->in == size * (message + 4) + bases);
  CHECK(report->pages.touched() == 0);
}

}  // namespace

TEST_CASE("cuda mean: sparse messages are all that crosses, no page moves, and all peers have the CPU's bits",
          "[cuda][fast]") {
  for_messages([](const auto& how) { compare_means<collective::mean>(how); });
  using namespace compress;
  const sparse<dct_tiles, top_k, none> demo{dct_tiles{}, top_k{{.k = 32}}};
  compare_means<collective::sign_of_mean>(demo);
  compare_means<collective::contributor_mean>(demo);
  compare_means<collective::contributor_mean>(sparse<no_transform, shared_mask, none>{});
}

TEST_CASE("cuda mean: counts on the host bring the rows there, with the same bits", "[cuda][fast]") {
  const compress::sparse<compress::no_transform, compress::top_k, compress::none> how;
  std::vector<outcome> mixed(2), plain(2);
  for (auto* outcomes : {&mixed, &plain}) {
    for (outcome& o : *outcomes) o.counts.resize(n);
  }
  const net::memory_network first{2}, second{2};
  using aggregation = collective::contributor_mean;
  REQUIRE(peer_threads::all_succeeded(
      cases::run_sides(first, [&](side& s) { return exchange_here<aggregation>(s, how, plain[s.self]); })));
  REQUIRE(peer_threads::all_succeeded(cases::run_sides(second, [&](side& s) {
    return exchange_there<aggregation>(s, how, mixed[s.self], std::make_shared<queue_report>());
  })));
  for (std::uint32_t p = 0; p < 2; ++p) {
    CHECK(same(mixed[p].mean, plain[p].mean));
    CHECK(same(mixed[p].left, plain[p].left));
    CHECK(same(mixed[p].counts, plain[p].counts));
  }
  CHECK(*std::max_element(mixed[0].counts.begin(), mixed[0].counts.end()) == 2.0F);
}

TEST_CASE("cuda mean: a device that fails anywhere in an exchange ends it with its error", "[cuda][fast]") {
  const compress::sparse<compress::dct_tiles, compress::top_k, compress::bits<2>> how;
  const auto run = [&](const std::shared_ptr<queue_report>& report) {
    std::vector<outcome> got(2);
    const net::memory_network network{2};
    return cases::run_sides(network, [&](side& s) {
      return s.self == 0 ? exchange_there<collective::mean>(s, how, got[0], report)
                         : exchange_here<collective::mean>(s, how, got[1]);
    });
  };
  const auto counted = std::make_shared<queue_report>();
  constexpr std::int64_t many = 1 << 20;
  counted->fail_at = many;
  REQUIRE(peer_threads::all_succeeded(run(counted)));
  const std::int64_t used = many - counted->fail_at;
  REQUIRE(used == 6);                               // encode, clear, two messages, divide, inverse
  for (std::int64_t at = 0; at + 1 < used; ++at) {  // after the last, the next that asks the engine hears of it
    CAPTURE(at);
    const auto report = std::make_shared<queue_report>();
    report->fail_at = at;
    const auto outcomes = run(report);
    REQUIRE_FALSE(outcomes[0]);
    CHECK(outcomes[0].error().code == errc::device_lost);
    CHECK(outcomes[1].has_value() == (at > 0));  // without a message the others have no mean either
  }
}
