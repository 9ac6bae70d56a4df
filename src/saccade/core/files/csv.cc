#include "saccade/core/files/csv.h"

#include "saccade/core/ascii.h"

namespace saccade {

CsvReader::CsvReader(std::string_view text, char separator, bool quotes)
    : text_(without_byte_order_mark(text)), separator_(separator), quotes_(quotes) {}

bool CsvReader::at_line_end() const {
  return text_[at_] == '\n' || (text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n'));
}

void CsvReader::skip_line_end() {
  if (text_[at_] == '\r') ++at_;
  if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  ++line_;
}

Result<std::string> CsvReader::quoted() {
  const int64_t began = line_;
  std::string field;
  ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    const bool doubled = c == '"' && at_ < text_.size() && text_[at_] == '"';
    if (c != '"' || doubled) {
      if (field.size() == kMaxField) {
        return fail(ErrorCode::kLimit, "line {}: a quoted field of more than {} bytes; is its quote closed?",
                    began, kMaxField);
      }
      field += c;
      if (doubled) ++at_;
      continue;
    }
    if (at_ < text_.size() && text_[at_] != separator_ && !at_line_end()) {
      return fail(ErrorCode::kBadData, "line {}: text after a quoted field; quotes in a field are doubled",
                  line_);
    }
    return field;
  }
  return fail(ErrorCode::kBadData, "line {}: a quoted field that does not end", began);
}

Result<std::string> CsvReader::plain() {
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != separator_ && !at_line_end()) ++at_;
  if (at_ - begin > kMaxField) {
    return fail(ErrorCode::kLimit, "line {}: a field of {} bytes, limit {}", line_, at_ - begin, kMaxField);
  }
  return std::string(text_.substr(begin, at_ - begin));
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (at_ < text_.size() && at_line_end()) skip_line_end();
  if (at_ >= text_.size()) return false;
  record_line_ = line_;
  for (;;) {
    if (fields.size() == kMaxFields) {
      return fail(ErrorCode::kLimit, "line {}: more than {} fields", record_line_, kMaxFields);
    }
    const bool is_quoted = quotes_ && at_ < text_.size() && text_[at_] == '"';
    SACCADE_ASSIGN(fields.emplace_back(), is_quoted ? quoted() : plain());
    if (at_ >= text_.size()) return true;
    if (text_[at_] != separator_) break;
    ++at_;
  }
  skip_line_end();
  return true;
}

std::string format_csv(const std::vector<std::string>& fields, char separator) {
  std::string record;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) record += separator;
    const std::string& field = fields[i];
    const bool alone_and_empty = field.empty() && fields.size() == 1;  // else an empty line
    if (!alone_and_empty && field.find_first_of(std::string("\"\r\n\xef") + separator) == std::string::npos) {
      record += field;
      continue;
    }
    record += '"';
    for (const char c : field) {
      if (c == '"') record += '"';
      record += c;
    }
    record += '"';
  }
  return record + "\n";
}

}  // namespace saccade
