// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP

#include <causeway/collective/mpi_site.hpp>

#include <causeway/collective/mpi_sums.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/mpi_library.hpp>
#include <causeway/net/mpi_transport.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::string to_string(mpi_way way) {
  constexpr const char* names[] = {"all_reduce", "in_parts", "messages", "direct", "shared"};
  return names[static_cast<std::size_t>(way)];
}

CAUSEWAY_DECL mpi_site::mpi_site(std::unique_ptr<detail::mpi_sums> sums) : sums_{std::move(sums)} {
  always(shares_memory() ? mpi_way::shared : sums_->options().same_bits ? mpi_way::messages : mpi_way::all_reduce);
}
CAUSEWAY_INLINE mpi_site::~mpi_site() = default;

CAUSEWAY_DECL result<std::shared_ptr<mpi_site>> mpi_site::open(const net::mpi_world& world,
                                                               const mpi_site_options& options) {
  CAUSEWAY_ASSIGN(net::mpi_transport words, net::mpi_transport::open(world, {.own_sums = false}));
  CAUSEWAY_ASSIGN(const net::mpi_world own, world.split(0));  // a communicator that nobody else speaks on
  auto sums = std::make_unique<detail::mpi_sums>(*own.line(), std::move(words), options, world.patience());
  CAUSEWAY_TRY(sums->share_memory(own));
  std::shared_ptr<mpi_site> made{new mpi_site{std::move(sums)}};
  CAUSEWAY_TRY(made->measure(options.measure_up_to));
  return made;
}

CAUSEWAY_INLINE std::uint32_t mpi_site::size() const { return sums_->size(); }
CAUSEWAY_INLINE std::uint32_t mpi_site::rank() const { return sums_->rank(); }

CAUSEWAY_DECL const mpi_site::choice* mpi_site::choice_for(std::size_t bytes) const {
  for (const choice& c : choices_) {
    if (bytes <= c.up_to) return &c;
  }
  return choices_.empty() ? nullptr : &choices_.back();
}

CAUSEWAY_DECL mpi_way mpi_site::way_of(std::size_t bytes) const {
  const choice* const chosen = choice_for(bytes);
  return chosen != nullptr ? chosen->way : usual_;
}

CAUSEWAY_DECL void mpi_site::choose(std::vector<choice> choices) {
  if (!sums_->options().same_bits) choices_ = std::move(choices);
}

CAUSEWAY_DECL bool mpi_site::shares_memory() const { return sums_->shares_memory(); }

CAUSEWAY_DECL void mpi_site::always(mpi_way way) {
  choices_.clear();
  usual_ = way;
}

CAUSEWAY_INLINE result<void> mpi_site::mean(std::span<float> data) {
  if (size() == 1 || data.empty()) return {};
  const mpi_way way = way_of(data.size_bytes());
  if (way == mpi_way::messages) return sums_->by_messages(data, true);
  if (way == mpi_way::shared && shares_memory()) {
    CAUSEWAY_TRY(sums_->begin_shared(data, 1.0F / static_cast<float>(size())));
    return sums_->finish();
  }
  CAUSEWAY_TRY(sum(data));
  kernels::scale(sums_->pool(), data.data(), 1.0F / static_cast<float>(size()), static_cast<std::int64_t>(data.size()));
  return {};
}

CAUSEWAY_INLINE result<void> mpi_site::sum(std::span<float> data) {
  if (size() == 1 || data.empty()) return {};
  const mpi_way way = way_of(data.size_bytes());
  if (way == mpi_way::messages) return sums_->by_messages(data, false);
  CAUSEWAY_TRY(sums_->begin(way, reinterpret_cast<std::byte*>(data.data()), data.size(), MPI_FLOAT, MPI_SUM));
  return sums_->finish();
}

CAUSEWAY_DECL result<void> mpi_site::begin_sum(std::span<float> data) {
  const mpi_way way = way_of(data.size_bytes());
  return sums_->begin(way == mpi_way::messages ? mpi_way::all_reduce : way, reinterpret_cast<std::byte*>(data.data()),
                      data.size(), MPI_FLOAT, MPI_SUM);
}

CAUSEWAY_DECL result<void> mpi_site::begin_sum(std::span<bf16> data) {
  CAUSEWAY_ASSIGN(const MPI_Op how, sums_->sum_of_bf16());
  const mpi_way way = way_of(data.size_bytes());
  return sums_->begin(way == mpi_way::messages ? mpi_way::all_reduce : way, reinterpret_cast<std::byte*>(data.data()),
                      data.size(), MPI_UINT16_T, how);
}

CAUSEWAY_DECL bool mpi_site::done() {
  net::detail::mpi_pause pause;
  const auto over = sums_->look(pause);
  return !over || *over;
}

CAUSEWAY_DECL result<void> mpi_site::finish() { return sums_->finish(); }

CAUSEWAY_INLINE result<void> mpi_site::broadcast(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_EXPECT(from < size());
  if (size() == 1 || data.empty()) return {};
  const choice* const chosen = choice_for(data.size_bytes());
  if (chosen != nullptr && chosen->broadcasts_messages) return sums_->broadcast_messages(from, data);
  return sums_->broadcast(from, data);
}

CAUSEWAY_INLINE result<bool> mpi_site::all_of(bool mine) {
  CAUSEWAY_ASSIGN(const int all, sums_->least(mine ? 1 : 0));
  return all == 1;
}

/// Those worth timing for sums of so many bytes, MPI's own first.
CAUSEWAY_DECL std::vector<mpi_way> mpi_site::ways_for(std::size_t bytes) const {
  std::vector<mpi_way> ways{mpi_way::all_reduce, mpi_way::in_parts, mpi_way::messages};
  if (bytes <= detail::most_direct && size() <= 64) ways.push_back(mpi_way::direct);  // n^2 messages
  if (shares_memory()) ways.push_back(mpi_way::shared);
  return ways;
}

/// Seconds of the quickest of so many, after a first one that is not counted.
result<double> mpi_site::best_of(int repeats, auto&& f) {
  double best = 1e9;
  for (int i = 0; i <= repeats; ++i) {
    CAUSEWAY_TRY(all_of(true));
    const time_point begin = sums_->clock().now();
    CAUSEWAY_TRY(f());
    if (i > 0) best = std::min(best, seconds(sums_->clock().now() - begin));
  }
  return best;
}

// The slowest rank's best time counts, and is the same on all ranks: so is the choice. Shared
// memory, or else MPI's own way, is kept where it is no more than noise behind.
CAUSEWAY_DECL result<void> mpi_site::measure(std::size_t bytes) {
  constexpr std::size_t smallest = 1024, largest = std::size_t{64} << 20U;
  if (size() == 1 || sums_->options().same_bits || bytes == 0) return {};
  const mpi_way usual = usual_;
  std::vector<choice> found;
  std::vector<float> values(std::min(bytes, largest) / sizeof(float), 1.0F);
  for (std::size_t up_to = smallest; up_to / 4 < std::min(bytes, largest); up_to *= 4) {
    choice c{.up_to = up_to};
    const int repeats = up_to <= std::size_t{256} << 10U ? 40 : up_to <= std::size_t{4} << 20U ? 12 : 4;  // short is noisy
    const std::span<float> part{values.data(), std::min(values.size(), up_to / sizeof(float))};
    for (const mpi_way way : ways_for(up_to)) {
      always(way);
      CAUSEWAY_ASSIGN(c.took[static_cast<int>(way)], best_of(repeats, [&] { return mean(part); }));
    }
    CAUSEWAY_ASSIGN(c.broadcast_took[0], best_of(repeats, [&] { return sums_->broadcast(0, part); }));
    CAUSEWAY_ASSIGN(c.broadcast_took[1], best_of(repeats, [&] { return sums_->broadcast_messages(0, part); }));
    CAUSEWAY_TRY(sums_->slowest(c.took));
    CAUSEWAY_TRY(sums_->slowest(c.broadcast_took));
    c.way = usual;
    const double enough = 0.9 * c.took[static_cast<int>(c.way)];
    for (const mpi_way way : ways_for(up_to)) {
      const double took = c.took[static_cast<int>(way)];
      if (took < enough && took < c.took[static_cast<int>(c.way)]) c.way = way;
    }
    c.broadcasts_messages = c.broadcast_took[1] < 0.9 * c.broadcast_took[0];
    found.push_back(c);
  }
  always(usual);
  choices_ = std::move(found);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP
