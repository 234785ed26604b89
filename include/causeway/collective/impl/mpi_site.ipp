// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP

// Bodies of collective/mpi_site.hpp, and the collectives behind it.

#include <causeway/collective/mpi_site.hpp>

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/shared_sum.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/mpi_library.hpp>
#include <causeway/net/mpi_transport.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Where all send to all, a sum of more is quicker in MPI's own way on any machine.
inline constexpr std::size_t most_direct = std::size_t{16} << 10U;

/// MPI's signature. Each addition rounds, as in hardware that adds bf16.
inline void add_bf16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const bf16*>(in);
  auto* const b = static_cast<bf16*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = bf16{static_cast<float>(a[i]) + static_cast<float>(b[i])};
}

/// One sum at a time on a communicator of its own.
class mpi_sums {
 public:
  mpi_sums(net::detail::mpi_communicator line, net::mpi_transport words, const mpi_site_options& options, duration patience)
      : line_{std::move(line)}, words_{std::move(words)}, options_{options}, patience_{patience} {}
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;
  ~mpi_sums() {
    if (own_sum_ != MPI_OP_NULL && line_.process->usable()) (void)MPI_Op_free(&own_sum_);
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size); }
  [[nodiscard]] std::uint32_t rank() const { return static_cast<std::uint32_t>(line_.rank); }
  [[nodiscard]] const mpi_site_options& options() const { return options_; }
  [[nodiscard]] bool shares_memory() const { return shared_ != nullptr; }
  [[nodiscard]] any_clock& clock() { return line_.clock; }
  [[nodiscard]] thread_pool& pool() { return options_.pool != nullptr ? *options_.pool : workspace_.alone(); }

  CAUSEWAY_DECL result<void> begin(mpi_way way, std::byte* data, std::size_t count, MPI_Datatype type, MPI_Op how);
  /// Memory for sums, where all ranks can have it. All ranks call it.
  CAUSEWAY_DECL result<void> share_memory(const net::mpi_world& world);
  CAUSEWAY_DECL result<void> begin_shared(std::span<float> data, float factor);
  CAUSEWAY_DECL result<bool> look(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL result<void> finish();
  CAUSEWAY_DECL result<void> by_messages(std::span<float> data, bool mean);
  CAUSEWAY_DECL result<void> broadcast_messages(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<void> broadcast(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<int> least(int mine);
  CAUSEWAY_DECL result<void> slowest(std::span<double> times);
  CAUSEWAY_DECL result<MPI_Op> sum_of_bf16();

 private:
  [[nodiscard]] result<void> ready() const {
    if (line_.process->failure) return *line_.process->failure;
    return {};
  }
  result<void> ended(const error& why) { return line_.process->fail_for_good(why); }
  result<void> check(int code, const char* where) {
    auto outcome = net::detail::mpi_check(code, where);
    return outcome ? outcome : ended(outcome.error());
  }
  result<void> wait(MPI_Request& request, const char* where) {
    return net::detail::mpi_wait(line_, request, patience_, where);
  }
  CAUSEWAY_DECL result<void> gather_parts();
  CAUSEWAY_DECL result<void> begin_direct(std::span<float> data);
  CAUSEWAY_DECL void end_direct();
  CAUSEWAY_DECL result<bool> look_shared(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL collective_options message_options();

  net::detail::mpi_communicator line_;
  net::mpi_transport words_;
  std::unique_ptr<shared_sum> shared_;
  mpi_site_options options_;
  duration patience_;
  collective_workspace workspace_;
  MPI_Op own_sum_ = MPI_OP_NULL;
  std::vector<MPI_Request> requests_;
  std::uint64_t number_ = 0;
  std::uint32_t looks_ = 0;

  std::vector<std::byte> part_;    ///< not in place: MPICH 4.0 fails an assertion there
  std::byte* in_parts_ = nullptr;  ///< the sum whose parts are still to be gathered
  std::vector<float> terms_;       ///< of all ranks, for `direct_`
  std::span<float> direct_{};      ///< the sum whose terms are on their way
  MPI_Datatype type_ = MPI_FLOAT;
  std::size_t width_ = 0;
  std::vector<int> counts_, places_;
};

CAUSEWAY_DECL result<void> mpi_sums::begin(mpi_way way, std::byte* data, std::size_t count, MPI_Datatype type, MPI_Op how) {
  CAUSEWAY_TRY(ready());
  CAUSEWAY_EXPECT(requests_.empty() && way != mpi_way::messages);
  type_ = type;
  width_ = type == MPI_FLOAT ? sizeof(float) : sizeof(bf16);
  const std::size_t most = net::detail::most_at_once / width_;
  if (way == mpi_way::in_parts && count <= most && count >= size()) {
    counts_.clear();
    places_.clear();
    for (std::size_t r = 0; r < size(); ++r) {
      places_.push_back(static_cast<int>(count * r / size()));
      counts_.push_back(static_cast<int>(count * (r + 1) / size()) - places_.back());
    }
    in_parts_ = data;
    part_.resize((count / size() + 1) * width_);
    requests_.push_back(MPI_REQUEST_NULL);
    return check(MPI_Ireduce_scatter(data, part_.data(), counts_.data(), type, how, line_.handle, requests_.data()),
                 "a sum within the site");
  }
  const std::span<float> values{reinterpret_cast<float*>(data), type == MPI_FLOAT ? count : 0};
  if (way == mpi_way::direct && !values.empty() && values.size_bytes() <= most_direct) return begin_direct(values);
  if (way == mpi_way::shared && !values.empty() && shared_) return begin_shared(values, 1.0F);
  for (std::size_t at = 0; at < count; at += most) {
    const auto piece = static_cast<int>(std::min(most, count - at));
    requests_.push_back(MPI_REQUEST_NULL);
    CAUSEWAY_TRY(check(MPI_Iallreduce(MPI_IN_PLACE, data + at * width_, piece, type, how, line_.handle, &requests_.back()),
                       "a sum within the site"));
  }
  return {};
}

CAUSEWAY_DECL result<void> mpi_sums::gather_parts() {
  std::byte* const data = std::exchange(in_parts_, nullptr);
  return check(MPI_Iallgatherv(part_.data(), counts_[rank()], type_, data, counts_.data(), places_.data(), type_,
                               line_.handle, requests_.data()),
               "a sum within the site");
}

// `data` is being sent, so that it is changed only when all have it.
CAUSEWAY_DECL result<void> mpi_sums::begin_direct(std::span<float> data) {
  constexpr int tag = 0;
  const auto count = static_cast<int>(data.size());
  direct_ = data;
  terms_.resize(data.size() * size());
  requests_.assign(2 * (std::size_t{size()} - 1), MPI_REQUEST_NULL);
  std::size_t next = 0;
  for (int r = 0; r < line_.size; ++r) {
    if (r == line_.rank) continue;
    float* const term = terms_.data() + static_cast<std::size_t>(r) * data.size();
    CAUSEWAY_TRY(
        check(MPI_Irecv(term, count, MPI_FLOAT, r, tag, line_.handle, &requests_[next++]), "a sum within the site"));
  }
  for (int step = 1; step < line_.size; ++step) {  // each rank begins with another one
    const int to = (line_.rank + step) % line_.size;
    CAUSEWAY_TRY(check(MPI_Isend(data.data(), count, MPI_FLOAT, to, tag, line_.handle, &requests_[next++]),
                       "a sum within the site"));
  }
  return {};
}

CAUSEWAY_DECL void mpi_sums::end_direct() {
  const std::span<float> sum = std::exchange(direct_, {});
  std::copy(sum.begin(), sum.end(), terms_.data() + std::size_t{rank()} * sum.size());
  std::copy_n(terms_.data(), sum.size(), sum.begin());
  for (std::size_t r = 1; r < size(); ++r) {
    const float* const term = terms_.data() + r * sum.size();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
}

CAUSEWAY_DECL result<void> mpi_sums::share_memory(const net::mpi_world& world) {
  if (size() == 1 || size() > shared_sum::most_ranks) return {};
  shared_place place;
  result<std::unique_ptr<shared_sum>> mine = std::unique_ptr<shared_sum>{};
  if (rank() == 0) mine = shared_sum::make(size(), place);
  CAUSEWAY_ASSIGN(const std::string told, world.tell(0, {reinterpret_cast<const char*>(&place), sizeof place}));
  if (told.size() != sizeof place) return ended(fail(errc::protocol, "the site", "its ranks run different versions"));
  std::memcpy(&place, told.data(), sizeof place);
  if (rank() != 0) mine = shared_sum::join(rank(), size(), place);
  CAUSEWAY_ASSIGN(const int all, least(mine ? 1 : 0));
  if (all == 1) shared_ = std::move(*mine);
  return {};
}

CAUSEWAY_DECL result<void> mpi_sums::begin_shared(std::span<float> data, float factor) {
  CAUSEWAY_TRY(ready());
  shared_->begin(data, factor);
  return {};
}

// A rank that we wait for may itself wait for a message of ours, which moves only while we look at MPI.
CAUSEWAY_DECL result<bool> mpi_sums::look_shared(net::detail::mpi_pause& pause) {
  bool moved = false;
  if (shared_->look(pool(), moved)) return true;
  if (moved) pause.reset();
  if (++looks_ % 64 != 0) return false;
  int flag = 0;
  CAUSEWAY_TRY(
      check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, line_.handle, &flag, MPI_STATUS_IGNORE), "a sum within the site"));
  return false;
}

CAUSEWAY_DECL result<bool> mpi_sums::look(net::detail::mpi_pause& pause) {
  CAUSEWAY_TRY(ready());
  if (shared_ && shared_->under_way()) return look_shared(pause);
  int flag = 0;
  CAUSEWAY_TRY(check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE),
                     "a sum within the site"));
  if (flag == 0) return false;
  if (!direct_.empty()) end_direct();
  if (in_parts_ == nullptr) return true;
  pause.reset();
  CAUSEWAY_TRY(gather_parts());
  return false;
}

CAUSEWAY_DECL result<void> mpi_sums::finish() {
  const auto over = net::detail::mpi_poll(line_.clock, *line_.process, line_.clock.now() + patience_,
                                          [&](net::detail::mpi_pause& pause) { return look(pause); });
  if (!over) return ended(over.error());
  if (!*over) return ended(net::detail::mpi_timeout("a sum within the site", patience_));
  requests_.clear();
  return {};
}

CAUSEWAY_DECL collective_options mpi_sums::message_options() {
  collective_options options{.deadline = line_.clock.now() + patience_};
  options.pool = options_.pool;
  options.workspace = &workspace_;
  options.chunk_bytes = std::size_t{1} << 20U;
  return options;
}

CAUSEWAY_DECL result<void> mpi_sums::by_messages(std::span<float> data, bool mean) {
  CAUSEWAY_TRY(ready());
  const auto options = message_options();
  const net::message_id id{.channel = channels::site, .step = ++number_};
  const auto outcome = mean ? all_reduce_mean(words_, id, data, options) : all_reduce_sum(words_, id, data, options);
  return outcome ? outcome : ended(outcome.error());
}

CAUSEWAY_DECL result<void> mpi_sums::broadcast_messages(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_TRY(ready());
  const net::message_id id{.channel = channels::site, .step = ++number_};
  const auto outcome = collective::broadcast(words_, id, from, std::as_writable_bytes(data), message_options());
  return outcome ? outcome : ended(outcome.error());
}

CAUSEWAY_DECL result<void> mpi_sums::broadcast(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_TRY(ready());
  constexpr std::size_t most = net::detail::most_at_once / sizeof(float);
  for (std::size_t at = 0; at < data.size(); at += most) {
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(check(MPI_Ibcast(data.data() + at, static_cast<int>(std::min(most, data.size() - at)), MPI_FLOAT,
                                  static_cast<int>(from), line_.handle, &request),
                       "a broadcast within the site"));
    CAUSEWAY_TRY(wait(request, "a broadcast within the site"));
  }
  return {};
}

CAUSEWAY_DECL result<int> mpi_sums::least(int mine) {
  CAUSEWAY_TRY(ready());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(
      check(MPI_Iallreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, line_.handle, &request), "a word to the site"));
  CAUSEWAY_TRY(wait(request, "a word to the site"));
  return mine;
}

CAUSEWAY_DECL result<void> mpi_sums::slowest(std::span<double> times) {
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(check(MPI_Iallreduce(MPI_IN_PLACE, times.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
                                    line_.handle, &request),
                     "comparing ways to sum"));
  return wait(request, "comparing ways to sum");
}

CAUSEWAY_DECL result<MPI_Op> mpi_sums::sum_of_bf16() {
  CAUSEWAY_TRY(ready());
  if (own_sum_ == MPI_OP_NULL) CAUSEWAY_TRY(check(MPI_Op_create(add_bf16, 1, &own_sum_), "a sum of bf16"));
  return own_sum_;
}

}  // namespace detail

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
template <class F>
result<double> mpi_site::best_of(int repeats, F&& f) {
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
