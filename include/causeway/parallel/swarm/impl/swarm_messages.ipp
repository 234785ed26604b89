// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP

// Bodies of parallel/swarm/swarm_messages.hpp.

#include <causeway/parallel/swarm/swarm_messages.hpp>

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

CAUSEWAY_DECL void batch_set::write(net::byte_writer& out) const {
  out.put(size_);
  for (const std::uint64_t w : words_) out.put(w);
}

CAUSEWAY_DECL batch_set batch_set::read(net::byte_reader& in) {
  const auto size = in.get<std::uint32_t>();
  const std::size_t words = (std::size_t{size} + 63U) / 64U;
  if (size > most_micro_batches || words * 8 > in.remaining()) in.refuse();
  if (!in.ok()) return {};
  batch_set s{size};
  for (auto& w : s.words_) w = in.get<std::uint64_t>();
  if (size % 64U != 0 && s.words_.back() >> (size % 64U) != 0) in.refuse();
  return s;
}

CAUSEWAY_DECL std::vector<double> numbers_of(const stage_sum& sum, std::size_t count) {
  std::vector<double> numbers{sum.squares};
  numbers.insert(numbers.end(), sum.asked.begin(), sum.asked.begin() + static_cast<std::ptrdiff_t>(count));
  return numbers;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::swarm_wire

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace swarm_wire { namespace detail {

CAUSEWAY_DECL void write(net::byte_writer& out, const stage_sum& m) {
  put_real(out.put(m.step), m.squares);
  out.put(static_cast<std::uint32_t>(m.asked.size()));
  for (const double v : m.asked) put_real(out, v);
}

CAUSEWAY_DECL void read(net::byte_reader& in, stage_sum& m) {
  m.step = in.get<std::uint64_t>();
  m.squares = get_real(in);
  const auto n = in.get<std::uint32_t>();
  if (n > most_asked || std::size_t{n} * 8 > in.remaining()) in.refuse();
  m.asked.clear();
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.asked.push_back(get_real(in));
}

CAUSEWAY_DECL void write(net::byte_writer& out, const status& m) {
  out.put(m.stage).put(m.serving).put(m.turn).put(m.term).put(m.coordinates);
  put_real(out, m.queued);
  put_real(out, m.seconds);
  for (const stage_sum& s : m.sums) write(out, s);
  out.put(m.part).put(m.committed);
  write(out, m.decided);
}

CAUSEWAY_DECL void read(net::byte_reader& in, status& m) {
  m.stage = get_below(in, most_stages);
  m.serving = get_flag(in);
  m.turn = in.get<std::uint64_t>();
  m.term = in.get<std::uint32_t>();
  m.coordinates = get_flag(in);
  m.queued = get_real(in);
  m.seconds = get_real(in);
  for (stage_sum& s : m.sums) read(in, s);
  m.part = in.get<std::uint64_t>();
  m.committed = in.get<std::uint64_t>();
  read(in, m.decided);
}

CAUSEWAY_DECL void write(net::byte_writer& out, const report& m) {
  out.put(m.term).put(m.turn);
  m.done.write(out);
  m.begun.write(out);
  out.put(static_cast<std::uint32_t>(m.losses.size()));
  for (const double l : m.losses) put_real(out, l);
}

CAUSEWAY_DECL void read(net::byte_reader& in, report& m) {
  m.term = in.get<std::uint32_t>();
  m.turn = in.get<std::uint64_t>();
  m.done = batch_set::read(in);
  m.begun = batch_set::read(in);
  const auto n = in.get<std::uint32_t>();
  if (m.done.size() != m.begun.size() || (n != 0 && n != m.done.count()) || std::size_t{n} * 8 > in.remaining())
    in.refuse();
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.losses.push_back(get_real(in));
}

CAUSEWAY_DECL void write(net::byte_writer& out, const order& m) {
  out.put(m.turn).put(m.micro_batch).put(m.version).put(static_cast<std::uint32_t>(m.path.size()));
  for (std::size_t s = 0; s < m.path.size(); ++s) {
    out.put(m.path[s]).put(static_cast<std::uint8_t>(m.needs[s])).put(m.passes[s]);
  }
}

CAUSEWAY_DECL void read(net::byte_reader& in, order& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.version = in.get<std::uint64_t>();
  const auto stages = get_below(in, most_stages + 1);
  for (std::uint32_t s = 0; s < stages && in.ok(); ++s) {
    m.path.push_back(in.get<std::uint64_t>());
    const auto need = in.get<std::uint8_t>();
    if (need > 2) in.refuse();
    m.needs.push_back(static_cast<stage_need>(need));
    m.passes.push_back(in.get<std::uint64_t>());
    if (m.passes.back() > m.version || (s > 0 && m.passes.back() < m.passes[s - 1])) in.refuse();
  }
}

CAUSEWAY_DECL void write(net::byte_writer& out, const tensor_announcement& m) {
  out.put(m.turn).put(m.micro_batch).put(m.backward).put(m.serial).put(m.pass);
}

CAUSEWAY_DECL void read(net::byte_reader& in, tensor_announcement& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.backward = get_flag(in);
  m.serial = in.get<std::uint64_t>();
  m.pass = in.get<std::uint64_t>();
}

CAUSEWAY_DECL void write(net::byte_writer& out, const contributed& m) {
  out.put(m.turn).put(m.micro_batch);
  put_real(out, m.seconds);
  put_real(out, m.loss);
}

CAUSEWAY_DECL void read(net::byte_reader& in, contributed& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.seconds = get_real(in);
  m.loss = get_real(in);
}

CAUSEWAY_DECL void read(net::byte_reader& in, verdict& m) {
  m.turn = in.get<std::uint64_t>();
  m.complete = get_flag(in);
  m.loss = get_real(in);
}

CAUSEWAY_DECL void write(net::byte_writer& out, const addresses& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const std::string& a : m.list) out.put_text(a);
}

CAUSEWAY_DECL void read(net::byte_reader& in, addresses& m) {
  const auto n = get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.list.push_back(in.get_text(longest_address));
}

CAUSEWAY_DECL void read(net::byte_reader& in, move_request& m) {
  m.term = in.get<std::uint32_t>();
  m.stage = get_below(in, most_stages);
}

CAUSEWAY_DECL void read(net::byte_reader& in, refusal& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.from = in.get<std::uint64_t>();
}

CAUSEWAY_DECL void write(net::byte_writer& out, const delays& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const auto& d : m.list) put_real(out.put(d.to), d.seconds);
}

CAUSEWAY_DECL void read(net::byte_reader& in, delays& m) {
  const auto n = get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
    const auto to = in.get<std::uint64_t>();
    m.list.push_back({to, get_real(in)});
    if (m.list.back().seconds < 0) in.refuse();
  }
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::swarm_wire::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace swarm_wire {

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::swarm_wire

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGES_IPP
