// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP

#include <causeway/collective/mpi_sums.hpp>

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

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

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP
