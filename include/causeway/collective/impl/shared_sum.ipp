// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP

#include <causeway/collective/shared_sum.hpp>

#include <causeway/collective/sum.hpp>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL result<std::unique_ptr<shared_sum>> shared_sum::make(std::uint32_t ranks, shared_place& place) {
  const std::size_t bytes = length(ranks) + sizeof place.mark;
  CAUSEWAY_ASSIGN(net::detail::shared_pages pages, net::detail::shared_pages::make(bytes));
  place = {.process = ::getpid(), .descriptor = pages.descriptor().get()};
  if (::getrandom(&place.mark, sizeof place.mark, 0) != sizeof place.mark) {
    return fail(errc::io_failed, "shared memory", "this system gives no random numbers");
  }
  std::memcpy(pages.base() + length(ranks), &place.mark, sizeof place.mark);
  return std::make_unique<shared_sum>(std::move(pages), 0, ranks);
}

CAUSEWAY_DECL result<std::unique_ptr<shared_sum>> shared_sum::join(std::uint32_t rank, std::uint32_t ranks,
                                                                   const shared_place& place) {
  const std::size_t bytes = length(ranks) + sizeof place.mark;
  const std::string path = "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
  owned_descriptor d{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  const bool fits = d.get() >= 0 && ::lseek(d.get(), 0, SEEK_END) == static_cast<off_t>(bytes);
  if (!fits) return fail(errc::io_failed, "shared memory", "the ranks have none in common");
  CAUSEWAY_ASSIGN(net::detail::shared_pages pages, net::detail::shared_pages::map(std::move(d), bytes));
  std::uint64_t mark = 0;
  std::memcpy(&mark, pages.base() + length(ranks), sizeof mark);
  if (mark != place.mark) return fail(errc::io_failed, "shared memory", "belongs to another job");
  pages.close_descriptor();
  return std::make_unique<shared_sum>(std::move(pages), rank, ranks);
}

CAUSEWAY_DECL shared_sum::shared_sum(net::detail::shared_pages pages, std::uint32_t rank, std::uint32_t ranks)
    : pages_{std::move(pages)},
      progress_{reinterpret_cast<sum_progress*>(pages_.base())},
      slots_{reinterpret_cast<float*>(pages_.base() + ranks * sizeof(sum_progress))},
      rank_{rank},
      ranks_{ranks} {}

CAUSEWAY_DECL void shared_sum::begin(std::span<float> data, float factor) {
  CAUSEWAY_EXPECT(!under_way());
  data_ = data;
  factor_ = factor;
  by_each_ = data.size_bytes() * ranks_ <= most_by_each;
  first_ = end_;
  end_ = first_ + (data.size() + piece_values - 1) / piece_values;
  (void)write();
}

CAUSEWAY_DECL bool shared_sum::all(std::atomic<std::uint64_t> sum_progress::*what, std::uint64_t number) const noexcept {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if ((progress_[r].*what).load(std::memory_order_acquire) < number) return false;
  }
  return true;
}

/// Where the piece before the last one was, which all must have read.
CAUSEWAY_DECL bool shared_sum::write() {
  if (written_ == end_ || (written_ >= 2 && !all(&sum_progress::read, written_ - 1))) return false;
  const std::span<float> values = values_of(written_);
  std::memcpy(slot(written_, rank_), values.data(), values.size_bytes());
  progress_[rank_].written.store(++written_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL void shared_sum::add_range(thread_pool& pool, std::uint64_t number, std::size_t begin, std::size_t end,
                                         float* to) const {
  const float* terms[most_ranks];
  for (std::uint32_t r = 0; r < ranks_; ++r) terms[r] = slot(number, r) + begin;
  const std::span<const float* const> parts{terms, ranks_};
  if (sum_parts(pool, parts, factor_, to + begin, static_cast<std::int64_t>(end - begin))) return;
  for (std::size_t i = 0; i < end - begin; ++i) {  // it stores no block that is not finite
    float sum = terms[0][i];
    for (std::uint32_t r = 1; r < ranks_; ++r) sum += terms[r][i];
    to[begin + i] = factor_ * sum;
  }
}

CAUSEWAY_DECL bool shared_sum::add(thread_pool& pool) {
  if (added_ == written_ || !all(&sum_progress::written, added_ + 1)) return false;
  const std::span<float> values = values_of(added_);
  if (by_each_) {
    add_range(pool, added_, 0, values.size(), values.data());
  } else {
    const auto part = [&](std::size_t rank) {
      return rank == ranks_ ? values.size() : values.size() * rank / ranks_ / 16 * 16;
    };
    add_range(pool, added_, part(rank_), part(rank_ + std::size_t{1}), sum_of(added_));  // whole lines of memory
  }
  progress_[rank_].added.store(++added_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL bool shared_sum::read() {
  if (read_ == added_ || (!by_each_ && !all(&sum_progress::added, read_ + 1))) return false;
  const std::span<float> values = values_of(read_);
  if (!by_each_) std::memcpy(values.data(), sum_of(read_), values.size_bytes());
  progress_[rank_].read.store(++read_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL bool shared_sum::look(thread_pool& pool, bool& moved) {
  for (bool more = true; more;) {
    more = write();
    more = add(pool) || more;
    more = read() || more;
    moved = moved || more;
  }
  if (read_ < end_) return false;
  data_ = {};
  return true;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP
