// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP

#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <bit>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace swarm_wire {

CAUSEWAY_DECL batch_set::batch_set(std::uint32_t size) : size_{size}, words_((size + 63U) / 64U, 0) {}

CAUSEWAY_DECL void batch_set::add(std::uint32_t m) {
  CAUSEWAY_EXPECT(m < size_);
  words_[m / 64U] |= std::uint64_t{1} << (m % 64U);
}

CAUSEWAY_DECL void batch_set::remove(std::uint32_t m) {
  CAUSEWAY_EXPECT(m < size_);
  words_[m / 64U] &= ~(std::uint64_t{1} << (m % 64U));
}

CAUSEWAY_DECL std::uint32_t batch_set::count() const noexcept {
  int n = 0;
  for (const std::uint64_t w : words_) n += std::popcount(w);
  return static_cast<std::uint32_t>(n);
}

CAUSEWAY_DECL bool batch_set::meets(const batch_set& other) const noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

CAUSEWAY_DECL void batch_set::unite(const batch_set& other) noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

CAUSEWAY_DECL void batch_set::put(net::byte_writer& out) const {
  out.put(size_);
  for (const std::uint64_t w : words_) out.put(w);
}

CAUSEWAY_DECL void batch_set::get(net::byte_reader& in) {
  *this = {};
  const auto size = in.get<std::uint32_t>();
  const std::size_t words = (std::size_t{size} + 63U) / 64U;
  if (size > most_micro_batches || words * 8 > in.remaining()) in.refuse();
  if (!in.ok()) return;
  *this = batch_set{size};
  for (auto& w : words_) w = in.get<std::uint64_t>();
  if (size % 64U != 0 && words_.back() >> (size % 64U) != 0) in.refuse();
}

CAUSEWAY_DECL std::vector<double> numbers_of(const stage_sum& sum, std::size_t count) {
  std::vector<double> numbers{sum.squares};
  numbers.insert(numbers.end(), sum.asked.begin(), sum.asked.begin() + static_cast<std::ptrdiff_t>(count));
  return numbers;
}

CAUSEWAY_DECL void order::path_field::put(net::byte_writer& out) const {
  out.put(static_cast<std::uint32_t>(m.path.size()));
  for (std::size_t s = 0; s < m.path.size(); ++s) {
    out.put(m.path[s]).put(static_cast<std::uint8_t>(m.needs[s])).put(m.passes[s]);
  }
}

CAUSEWAY_DECL void order::path_field::get(net::byte_reader& in) const {
  net::field_reader wire{in};
  std::uint32_t stages = 0;
  wire(net::below{stages, most_stages + 1});
  m.path.clear(), m.needs.clear(), m.passes.clear();
  for (std::uint32_t s = 0; s < stages && in.ok(); ++s) {
    wire(m.path.emplace_back(), net::below{m.needs.emplace_back(), 3}, m.passes.emplace_back());
    wire.must(m.passes[s] <= m.version && (s == 0 || m.passes[s] >= m.passes[s - 1]));
  }
}

inline constexpr net::envelope::kind messages{
    "swarm message", ", or of another model or seed, codec or number of micro-batches or local steps", 7};

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return net::envelope::seal(messages, run, m);
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return net::envelope::open<message>(messages, run, bytes);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::swarm_wire

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP
