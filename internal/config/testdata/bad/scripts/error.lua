local limit = nil
limit = limit + 1
function weigh() end
