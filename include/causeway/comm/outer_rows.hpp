// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_OUTER_ROWS_HPP
#define CAUSEWAY_COMM_OUTER_ROWS_HPP

// Rows that a policy keeps for each parameter, for peers whose part of the model changes during a run: which parts of an
// outer optimizer's state are rows, how they lie in the order of the parameters, and what becomes of them.

#include <causeway/axis/fragments.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Where the state of an optimizer lies, in parts.
std::vector<std::span<std::byte>> parts_of(auto& outer) {
  membership::image_collector parts;
  parts(outer);
  return parts.parts();
}

/// Which of its parts have a value for each parameter: those that are as long as what it is for.
std::vector<std::size_t> rows_of(auto outer) {
  constexpr std::size_t length = 1021;  // which no count of steps is
  outer.reset(static_cast<std::int64_t>(length));
  const auto parts = parts_of(outer);
  std::vector<std::size_t> rows;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].size() == length * sizeof(float)) rows.push_back(p);
  }
  return rows;
}

/// Rows as at the beginning; what is no row, such as a count of steps, stays. In place.
void reset_rows(auto& outer, std::size_t length) {
  std::vector<std::vector<std::byte>> kept;
  for (const std::span<std::byte> part : parts_of(outer)) kept.emplace_back(part.begin(), part.end());
  for (const std::size_t row : rows_of(outer)) kept[row].clear();
  outer.reset(static_cast<std::int64_t>(length));
  const auto is = parts_of(outer);
  for (std::size_t p = 0; p < kept.size(); ++p) std::copy(kept[p].begin(), kept[p].end(), is[p].begin());
}

/// One row, of fragments each of which has its own, in the order of the parameters.
class row_of_fragments {
 public:
  /// `values`: of one of them.
  void add(const axis::fragment& cut, float* values) {
    for (const index_range r : cut.ranges) {
      row_.pieces.push_back({values, static_cast<std::size_t>(r.size())});
      begins_.push_back(static_cast<std::size_t>(r.begin));
      for (std::size_t i = begins_.size() - 1; i > 0 && begins_[i - 1] > begins_[i]; --i) {
        std::swap(begins_[i - 1], begins_[i]);
        std::swap(row_.pieces[i - 1], row_.pieces[i]);
      }
      values += r.size();
    }
  }
  [[nodiscard]] parameter_row take() { return std::move(row_); }

 private:
  parameter_row row_;
  std::vector<std::size_t> begins_;  // of its pieces, rising
};

/// Rows as they were, for when the model has another part.
class kept_rows {
 public:
  void keep(const std::vector<parameter_row>& rows) {
    for (const parameter_row& row : rows) {
      auto& values = old_.emplace_back();
      for (const std::span<float> piece : row.pieces) values.insert(values.end(), piece.begin(), piece.end());
    }
  }
  /// Into `rows`: what both layouts have.
  void put_common(const std::vector<parameter_row>& rows, std::span<const parameter_segment> before,
                  std::span<const parameter_segment> now) const {
    for_common_pieces(before, now, [&](const parameter_segment& from, const parameter_segment& to) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        auto value = old_[r].begin() + from.offset;
        rows[r].visit(static_cast<std::size_t>(to.offset), static_cast<std::size_t>(to.size()),
                      [&](std::span<float> piece) {
                        std::copy_n(value, piece.size(), piece.begin());
                        value += static_cast<std::ptrdiff_t>(piece.size());
                      });
      }
    });
  }

 private:
  std::vector<std::vector<float>> old_;
};

/// Memory as it is now, to be put back.
class memory_as_it_was {
 public:
  explicit memory_as_it_was(std::vector<std::span<std::byte>> parts) : parts_{std::move(parts)} {
    for (const auto part : parts_) bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  void put_back() const {
    auto from = bytes_.begin();
    for (const auto part : parts_) {
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    }
  }

 private:
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::byte> bytes_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_OUTER_ROWS_HPP
